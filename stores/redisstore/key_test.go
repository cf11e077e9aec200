package redisstore

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/gatestore"
)

func TestKeyNames(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	client := startServer(t).client(t)
	for _, hash := range []bool{false, true} {
		s := newStore(t, client, Config{HashKeys: hash, Prefix: fmt.Sprintf("safe:%v", hash)})
		names := []string{"", "a", "a:b", "{a}", "}{", "a\nb", "\xff", strings.Repeat("x", 10_000), strings.Repeat("x", 64), strings.Repeat("x", 65), "=a", "#a"}
		n := client.DBSize(ctx).Val()
		for _, table := range names {
			opened := open(t, s, table)
			for _, key := range names {
				require.True(t, take(t, opened, key, ratelimit.PerHour(1), 1).Allowed, "%.20q %.20q", table, key)
			}
		}
		require.EqualValues(t, len(names)*len(names), client.DBSize(ctx).Val()-n)
		for _, key := range client.Keys(ctx, fmt.Sprintf("safe:%v:*", hash)).Val() {
			require.Less(t, len(key), 200)
			require.Equal(t, 1, strings.Count(key, "{"), key)
			require.Equal(t, 1, strings.Count(key, "}"), key)
			require.False(t, strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r > '~' }), "%q", key)
			require.False(t, hash && !strings.Contains(key, ":#"), "%q is legible", key)
		}
	}
}

func TestKeyNamesOfGates(t *testing.T) {
	t.Parallel()
	client := startServer(t).client(t)
	for hash, legible := range map[bool]int{false: 1, true: 0} {
		s := newStore(t, client, Config{HashKeys: hash, Prefix: fmt.Sprintf("safe:%v", hash)})
		gate, err := s.OpenGate("ads")
		require.NoError(t, err)
		held := gatestore.Hold{Key: gatestore.Key{Limit: "account", Key: "secret"}, For: time.Minute}
		_, _, err = gate.Report(t.Context(), gatestore.Report{Holds: []gatestore.Hold{held}})
		require.NoError(t, err)
		require.Len(t, client.Keys(t.Context(), fmt.Sprintf("safe:%v*", hash)).Val(), 2)
		require.Len(t, client.Keys(t.Context(), fmt.Sprintf("safe:%v*secret*", hash)).Val(), legible)
	}
}
