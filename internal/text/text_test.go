package text_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/text"
)

func TestMarshalAndUnmarshal(t *testing.T) {
	t.Parallel()
	bad := func(field string, value any, reason string) error {
		return fmt.Errorf("%s %v %s", field, value, reason)
	}
	for o := core.Ignored; o <= core.Failure; o++ {
		s, err := text.Marshal(o, core.Failure, bad)
		require.NoError(t, err)
		got := core.Outcome(99)
		require.NoError(t, text.Unmarshal(&got, core.Failure, s, bad))
		require.Equal(t, o, got)
	}
	const want = "must be ignored, success or failure"
	_, err := text.Marshal(core.Failure+1, core.Failure, bad)
	require.EqualError(t, err, "core.Outcome Outcome(3) "+want)
	got := core.Success
	for _, s := range []string{"", "Outcome(3)", "Failure", "failure "} {
		require.EqualError(t, text.Unmarshal(&got, core.Failure, []byte(s), bad), fmt.Sprintf("core.Outcome %q %s", s, want))
		require.Equal(t, core.Success, got)
	}
}

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
