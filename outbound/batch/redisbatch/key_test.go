package redisbatch

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// No two names share a key, and all keys of a method have its hash tag.
func TestNoTwoNamesShareAKey(t *testing.T) {
	t.Parallel()
	names := []string{"", "a", "a:", ":a", "a}:p:", "a}:p:a", "}:m", "=a", "#a", "{", "}", "a:b", "a.b", strings.Repeat("x", 64), strings.Repeat("x", 65), strings.Repeat("x", 1024), "ü"}
	seen := map[string]string{}
	for _, method := range names {
		prefix := keyPrefix("gresil", method)
		_, tag, _ := strings.Cut(prefix, "{")
		tag, _, _ = strings.Cut(tag, "}")
		require.NotContains(t, seen, "tag "+tag, "%q and %q", method, seen["tag "+tag])
		seen["tag "+tag] = method
		for _, kind := range []string{"m", "all", "q", "p:", "b:"} {
			for _, name := range names {
				key := prefix + kind
				if strings.HasSuffix(kind, ":") {
					key += name
				} else if name != "" {
					continue
				}
				require.NotContains(t, seen, key, "%q %q %q and %s", method, kind, name, seen[key])
				seen[key] = method + " " + kind + " " + name
			}
		}
	}
}

// The names of the keys are part of what processes of several versions share.
func TestNamesOfKeys(t *testing.T) {
	t.Parallel()
	require.Equal(t, "gresil:{=contacts.merge}:", keyPrefix("gresil", "contacts.merge"))
	require.Equal(t, "shop:{#0756c4b6e0dda4dc051396a469359e23}:", keyPrefix("shop", "contacts/merge"))
	_, err := New(redis.NewClient(&redis.Options{}), Config{Prefix: "a:b-c.d_1"})
	require.NoError(t, err)
}
