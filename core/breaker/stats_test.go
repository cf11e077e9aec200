package breaker_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/internal/eventtest"
	"github.com/gresil/gresil/internal/registry"
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
		b := newBreaker(t, breaker.Config{WindowTime: 10 * time.Second})
		run(t, b, "F.S.S.F")
		require.Equal(t, []any{4, 0.5}, []any{b.Stats().Calls, b.Stats().FailureRate})
		time.Sleep(7 * time.Second)
		require.Equal(t, 3, b.Stats().Calls)
		run(t, b, "-")
		require.Zero(t, b.Stats().Calls)
	})
}

func TestEvents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		var got []string
		r := eventtest.Registry(func(ctx context.Context, e registry.Event) {
			line := e.Text[len("circuit breaker "):]
			for _, a := range []string{"from", "to", "reason", "state", "outcome", "duration", "slow", "failure_rate"} {
				if v := e.Attr(a); v.Any() != nil {
					line += " " + v.String()
				}
			}
			if ctx.Value(key{}) == nil {
				line += " without a context"
			}
			got = append(got, line)
		})
		b := newBreaker(t, breaker.Config{Failures: 2, SlowCall: time.Second, OpenDelay: minute(), Registry: r})
		ctx := context.WithValue(t.Context(), key{}, 1)
		for _, err := range []error{nil, errDown, core.ErrRejected, errDown, nil} {
			_, _ = breaker.Do(ctx, b, func(context.Context) (int, error) { time.Sleep(2 * time.Second); return 0, err })
		}
		time.Sleep(time.Minute)
		b.State()
		require.Equal(t, []string{
			"recorded a call closed success 2s true 0",
			"recorded a call closed failure 2s true 0.5",
			"recorded a call closed ignored 2s true 0.5",
			"recorded a call closed failure 2s true 0.6666666666666666",
			"changed its state closed open 2 failures in a row 0.6666666666666666",
			"rejected a call open",
			"changed its state open half_open open for 1m0s 0.6666666666666666 without a context",
		}, got)
	})
}
