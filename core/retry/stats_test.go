package retry_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/core/retry"
	"github.com/gresil/gresil/internal/registry"
)

// Resilience4j and we count the first attempt, Polly does not.
func TestCallsAndWaits(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		cfg   retry.Config
		calls int
		waits []time.Duration
	}{
		{"constant", retry.Config{Backoff: backoff.Constant{Delay: 500 * ms}}, 3, []time.Duration{500 * ms, 500 * ms}},
		{"exponential", retry.Config{Backoff: exactly()}, 3, []time.Duration{500 * ms, 1000 * ms}},
		{"Polly's three retries", retry.Config{MaxAttempts: 4, Backoff: backoff.Constant{Delay: 2 * time.Second}}, 4, []time.Duration{2 * time.Second, 2 * time.Second, 2 * time.Second}},
		{"one attempt", retry.Config{MaxAttempts: 1, Backoff: exactly()}, 1, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				total := time.Duration(0)
				for _, d := range tt.waits {
					total += d
				}
				defer takes(t, total)()
				var waits []time.Duration
				tt.cfg.OnRetry = func(_ context.Context, r retry.Retry) { waits = append(waits, r.Wait) }
				op := &script{ends: []error{errBoom}}
				_, err := retry.Do(t.Context(), core.Must(retry.New(tt.cfg)), op.run)
				require.ErrorIs(t, err, errBoom)
				require.Equal(t, tt.calls, op.calls)
				require.Equal(t, tt.waits, waits)
			})
		})
	}
}

// A day of waits under a limit, in virtual time: whatever the strategy, the last
// attempt starts before the limit is reached.
func TestMaxElapsedOverADay(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for name, s := range map[string]backoff.Strategy{
		"constant":     backoff.Constant{Delay: 7 * time.Minute},
		"linear":       backoff.Linear{Delay: time.Second, Max: time.Hour, Jitter: 0.5},
		"exponential":  backoff.Exponential{Delay: time.Second, Max: time.Hour, Jitter: 0.5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				var last, told time.Duration
				var wait time.Duration
				p := core.Must(retry.New(retry.Config{MaxAttempts: 1 << 30, Backoff: s, MaxElapsed: day, Registry: observed(func(verdict string, e registry.Event) {
					told, wait = e.Attr("elapsed").Duration(), 0
					if verdict == "deadline" {
						wait = e.Attr("delay").Duration()
					}
				})}))
				_, err := retry.Do(t.Context(), p, func(context.Context) (int, error) {
					last = time.Since(start)
					time.Sleep(time.Second)
					return 0, errBoom
				})
				require.ErrorIs(t, err, errBoom)
				require.Less(t, last, day)
				require.Equal(t, last+time.Second, told)
				require.GreaterOrEqual(t, told+wait, day, "there was no time for another")
			})
		})
	}
}

// With retries in retries each shows its own attempts, and the outer one waits as
// long as what the inner one was rejected with asks for, also around an inner
// policy that gave up.
func TestNestedPoliciesWaitForTheInnermostRejection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		defer takes(t, (2*4+2*4+2*4)*time.Second+2*ms)()
		inner := core.Must(retry.New(retry.Config{RetryRejected: true, Backoff: backoff.Constant{Delay: 500 * ms}}))
		middle := core.Must(retry.New(retry.Config{RetryRejected: true, Backoff: backoff.Constant{}, MaxAttempts: 1}))
		outer := core.Must(retry.New(retry.Config{Backoff: backoff.Constant{Delay: ms}, RetryIf: func(error) bool { return true }}))
		made := 0
		_, err := retry.Do(t.Context(), outer, func(ctx context.Context) (int, error) {
			_, err := retry.Do(ctx, middle, func(ctx context.Context) (int, error) {
				return retry.Do(ctx, inner, func(context.Context) (int, error) {
					made++
					return 0, rejection{4 * time.Second}
				})
			})
			require.ErrorIs(t, err, core.ErrRejected)
			return 0, errBoom // an ordinary one
		})
		require.ErrorIs(t, err, errBoom)
		require.Equal(t, 9, made)
	})
	synctest.Test(t, func(t *testing.T) {
		// Three attempts of the inner one, each asking for 4s, twice over: between
		// them the outer one waits for those 4s too.
		defer takes(t, 5*4*time.Second)()
		inner := core.Must(retry.New(retry.Config{RetryRejected: true, Backoff: backoff.Constant{Delay: 500 * ms}}))
		outer := core.Must(retry.New(retry.Config{RetryRejected: true, MaxAttempts: 2, Backoff: backoff.Constant{Delay: 500 * ms}}))
		_, err := retry.Do(t.Context(), outer, func(ctx context.Context) (int, error) {
			return retry.Do(ctx, inner, func(context.Context) (int, error) { return 0, rejection{4 * time.Second} })
		})
		require.ErrorIs(t, err, core.ErrRejected, "no call was made")
	})
}
