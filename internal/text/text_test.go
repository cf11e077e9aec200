package text_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/internal/text"
)

func TestDurationIsShortAndParses(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "0s", 1: "1ns", time.Second: "1s", 90 * time.Second: "1m30s", time.Minute: "1m", 10 * time.Minute: "10m",
		time.Hour: "1h", 90 * time.Minute: "1h30m", time.Hour + time.Second: "1h0m1s", 1500 * time.Millisecond: "1.5s", -time.Hour: "-1h",
	} {
		require.Equal(t, want, text.Duration(d))
		got, err := time.ParseDuration(want)
		require.NoError(t, err)
		require.Equal(t, d, got)
	}
}

func TestAboutRoundsUp(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "0s", 1: "1µs", 299758: "300µs", 299758973: "300ms", 999999999: "1s", time.Second: "1s", 1050 * time.Millisecond: "1.05s", 1051 * time.Millisecond: "1.06s",
		9990000001: "10s", 24758 * time.Millisecond: "25s", time.Minute - 1: "1m", time.Hour: "1h", 90*time.Minute + 1: "1h30m1s", math.MaxInt64: "2562047h47m16.854775807s", -5: "-5ns",
	} {
		require.Equal(t, want, text.About(d), d)
	}
}
