package breaker_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/breaker"
)

func TestStats(t *testing.T) {
	t.Parallel()
	for calls, want := range map[string]string{
		"":                  "state=closed",
		"SSSF":              "state=closed failure_rate=0.25 successes=3 failures=1",
		"SsFf II":           "state=closed failure_rate=0.5 slow_rate=0.5 successes=2 failures=2 slow=2 ignored=2",
		"FFFFF RR":          "state=open failure_rate=1 failures=5 rejected=2 opened=1",
		"FFFFF R - SFI":     "state=half_open failure_rate=1 successes=1 failures=6 ignored=1 rejected=1 opened=1",
		"FFFFF - SSS F":     "state=closed failure_rate=1 successes=3 failures=6 opened=1",
		"M FFFFFFFFFF":      "state=metrics_only failure_rate=1 failures=10",
		"D FFFFFFFFFF":      "state=disabled",
		"X RR C S":          "state=closed successes=1 rejected=2",
		x(200, "S"):         "state=closed successes=200",
		x(200, "S") + "F":   "state=closed failure_rate=0.01 successes=200 failures=1",
		x(50, "SSSF") + "O": "state=open failure_rate=0.25 successes=150 failures=50 opened=1",
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBreaker(t, breaker.Config{SlowCall: time.Second, OpenDelay: minute()})
			run(t, b, calls)
			require.Equal(t, want, b.Stats().String(), calls)
			require.False(t, b.Stats().Since.After(time.Now()))
		})
	}
}

func TestStatsOfATimeWindow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		young := newBreaker(t, breaker.Config{Window: 2})
		run(t, young, "SSSS")
		require.NoError(t, young.SetConfig(breaker.Config{WindowTime: 10 * time.Second, MinCalls: 3, Failures: -1}))
		run(t, young, "F"+x(20, "S"))
		require.Equal(t, 21, young.Stats().Calls)
		require.EqualValues(t, 24, young.Stats().Successes)
		require.NoError(t, young.SetConfig(breaker.Config{WindowTime: 10 * time.Second, MinCalls: 3, FailureRate: 0.04}))
		run(t, young, "S R")
		b := newBreaker(t, breaker.Config{WindowTime: 10 * time.Second})
		run(t, b, "F.S.S.F")
		require.Equal(t, []any{4, 0.5}, []any{b.Stats().Calls, b.Stats().FailureRate})
		time.Sleep(7 * time.Second)
		require.Equal(t, 3, b.Stats().Calls)
		require.NoError(t, b.SetConfig(breaker.Config{WindowTime: 10 * time.Second, MinCalls: 1}))
		run(t, b, "-"+x(20, "S")+".S .........")
		require.Equal(t, 1, b.Stats().Calls, "the last one ended when a tenth did")
		run(t, b, "-")
		require.Zero(t, b.Stats().Calls)
		run(t, b, "SS")
		for _, c := range []struct {
			window time.Duration
			calls  int
		}{{10 * time.Second, 2}, {20 * time.Second, 0}} {
			require.NoError(t, b.SetConfig(breaker.Config{WindowTime: c.window}))
			require.Equal(t, c.calls, b.Stats().Calls, "a window of another time begins empty")
		}
	})
}

func TestTimeWindowInParallel(t *testing.T) {
	t.Parallel()
	b := newBreaker(t, breaker.Config{WindowTime: time.Hour, MinCalls: 2, FailureRate: 0.9})
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 2000 {
				outcome := core.Success
				if n == 1000 && i == 0 {
					outcome = core.Failure
				}
				if p, err := b.Acquire(t.Context()); err == nil {
					p.Done(outcome)
				}
			}
		})
	}
	all.Wait()
	s := b.Stats()
	require.Equal(t, []any{16_000, uint64(15_999), uint64(1)}, []any{s.Calls, s.Successes, s.Failures})
}
