package escalating

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTheArithmeticOfTheJudge(t *testing.T) {
	t.Parallel()
	v := New(0, 1)
	require.Zero(t, v.Verdict())
	second := time.Unix(1000, 0)
	for _, a := range []struct {
		at time.Duration
		n  string
	}{
		{900 * time.Millisecond, "1"},
		{950 * time.Millisecond, "2"},
		{1100 * time.Millisecond, "1"}, // a repetition
		{1200 * time.Millisecond, "3"},
		{1899 * time.Millisecond, "4"},
		{1900 * time.Millisecond, "5"}, // a second after the first
		{4 * time.Second, "6"},
	} {
		v.arrive(second.Add(a.at), a.n)
	}
	require.Equal(t, Verdict{
		Arrivals: 7, Unique: 6, Duplicates: 1,
		MostSliding: 5, // from 900 to 1899, and from 950 to 1900
		MostFixed:   4, // from 1000 to 1999
		Seconds:     3.1,
	}, v.Verdict())
}

// fill has the vendor answer as many calls as it permits.
func fill(t *testing.T, v *Vendor) {
	t.Helper()
	for range limit {
		require.Zero(t, v.arrive(time.Now(), "n"))
	}
}

func TestAnOverrunStartsAPauseAndACallDuringItDoublesIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := New(time.Second, 1)
		fill(t, v)
		time.Sleep(second - 1)
		require.Equal(t, 15*time.Second, v.arrive(time.Now(), "n"), "a trip")
		time.Sleep(time.Second)
		require.Equal(t, 14*time.Second, v.arrive(time.Now(), "n"), "pardoned")
		time.Sleep(time.Nanosecond)
		pause := 15 * time.Second
		for range 8 {
			pause = min(2*pause, 15*time.Minute)
			require.Equal(t, pause, v.arrive(time.Now(), "n"))
		}
		time.Sleep(15*time.Minute - 1)
		require.Equal(t, 15*time.Minute, v.arrive(time.Now(), "n"), "until its end")
		time.Sleep(15 * time.Minute)
		fill(t, v)
		require.Equal(t, 15*time.Second, v.arrive(time.Now(), "n"), "a trip starts anew")
		got := v.Verdict()
		require.Equal(t, []int{2, 9}, []int{got.Trips, got.Escalations})
		require.InDelta(t, 900, got.WorstPenalty, 1e-9)
	})
}

func TestAVendorThatPardonsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := New(0, 1)
		fill(t, v)
		require.Equal(t, 15*time.Second, v.arrive(time.Now(), "n"))
		require.Equal(t, 15*time.Second, v.arrive(time.Now(), "n"), "at the same moment")
		time.Sleep(time.Nanosecond)
		require.Equal(t, 30*time.Second, v.arrive(time.Now(), "n"))
	})
}

func TestTheScaleDividesTheTimesOfTheVendor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := New(time.Second, 10)
		for range limit - 1 {
			v.arrive(time.Now(), "n")
		}
		start := time.Now()
		wait, err := v.Call(t.Context(), "n")
		require.NoError(t, err)
		require.Zero(t, wait)
		require.GreaterOrEqual(t, time.Since(start), 10*time.Millisecond)
		require.LessOrEqual(t, time.Since(start), 30*time.Millisecond)
		require.Equal(t, 1500*time.Millisecond, v.arrive(time.Now(), "n"))
		time.Sleep(1500 * time.Millisecond)
		require.Zero(t, v.arrive(time.Now(), "n"))
		time.Sleep(100 * time.Millisecond)
		fill(t, v)
	})
}

func TestACallThatIsCanceledOnItsWayDoesNotArrive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := New(0, 1)
		ctx, cancel := context.WithTimeout(t.Context(), 49*time.Millisecond)
		defer cancel()
		_, err := v.Call(ctx, "n")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Zero(t, v.Verdict())
	})
}
