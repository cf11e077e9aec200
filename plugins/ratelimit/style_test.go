package ratelimit_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/plugins/ratelimit"
)

func TestHeaderStylesSurviveText(t *testing.T) {
	t.Parallel()
	for s := range ratelimit.HeaderDraft03 << 1 {
		text, err := s.MarshalText()
		require.NoError(t, err)
		require.Equal(t, s.String(), string(text))
		got := ratelimit.HeaderStyle(99)
		require.NoError(t, got.UnmarshalText(text))
		require.Equal(t, s, got)
	}
	const must = "must be none, draft10, x, draft10+x, draft03, draft10+draft03, x+draft03 or draft10+x+draft03"
	_, err := ratelimit.HeaderStyle(8).MarshalText()
	require.EqualError(t, err, "ratelimit.HeaderStyle = HeaderStyle(8): "+must)
	got := ratelimit.HeaderXRateLimit
	for _, text := range []string{"", "draft11", "x+", "HeaderStyle(8)"} {
		err := got.UnmarshalText([]byte(text))
		require.EqualError(t, err, fmt.Sprintf("ratelimit.HeaderStyle = %q: %s", text, must))
		require.ErrorIs(t, err, core.ErrConfig)
		require.Equal(t, ratelimit.HeaderXRateLimit, got)
	}
}

func ExampleHeaderStyle_UnmarshalText() {
	var s ratelimit.HeaderStyle
	fmt.Println(s.UnmarshalText([]byte("draft10+x")), s == ratelimit.HeaderDraft10|ratelimit.HeaderXRateLimit, s)
	// Output: <nil> true draft10+x
}
