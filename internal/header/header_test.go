package header_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/internal/header"
)

func TestSecondsAreRoundedUp(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]int64{
		0: 0, 1: 1, 900 * time.Millisecond: 1, time.Second: 1, time.Second + 1: 2, time.Hour: 3600, 1<<63 - 1: 9223372037, -1: 0, -time.Second: -1,
	} {
		require.Equal(t, want, header.Seconds(d), d)
	}
}

func TestRetryAfterIsAtLeastASecond(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "1", 1: "1", 200 * time.Millisecond: "1", 900 * time.Millisecond: "1", time.Second: "1", time.Second + 1: "2",
		59400 * time.Millisecond: "60", time.Hour: "3600", 1<<63 - 1: "9223372037",
	} {
		require.Equal(t, want, header.RetryAfter(d), d)
	}
}

func TestIsToken(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]bool{
		"GET": true, "x-api_key": true, "!#$%&'*+-.^_`|~09azAZ": true,
		"": false, "a b": false, "a:b": false, "é": false, "a\x00": false, "[": false, "@": false, "{": false, "\x1a": false, "a\x7f": false,
	} {
		require.Equal(t, want, header.IsToken(s), s)
	}
}
