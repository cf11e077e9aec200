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

func TestCallJudges(t *testing.T) {
	t.Parallel()
	p := core.Must(retry.New(retry.Config{MaxAttempts: 2, Backoff: backoff.Constant{}}))
	for _, tt := range []struct {
		name    string
		attempt retry.Attempt
		want    retry.Verdict
	}{
		{"success", retry.Attempt{Result: 1}, retry.Done},
		{"own mind about the error", retry.Attempt{Err: errBoom}, retry.Ignored},
		{"failure", retry.Attempt{Err: errBoom, Retryable: true}, retry.Again},
		{"result", retry.Attempt{Result: 1, Retryable: true}, retry.Again},
		{"not replayable", retry.Attempt{Err: errBoom, Retryable: true, Suppress: retry.NotReplayable}, retry.NotReplayable},
		{"too long", retry.Attempt{Result: 1, Retryable: true, Suppress: retry.RetryAfterTooLong}, retry.RetryAfterTooLong},
		{"suppressed but not retryable", retry.Attempt{Err: errBoom, Suppress: retry.NotReplayable}, retry.Ignored},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := p.Begin(nil)
			require.Equal(t, tt.want, c.Next(t.Context(), tt.attempt))
			if tt.want != retry.Again {
				require.Equal(t, tt.attempt.Err, c.Error(tt.attempt.Err, tt.attempt.Result), "bare after one attempt")
				return
			}
			require.NoError(t, c.Wait(t.Context()))
			want := retry.Exhausted // before Suppress: nothing was suppressed
			tt.attempt.Suppress = retry.NotReplayable
			require.Equal(t, want, c.Next(t.Context(), tt.attempt))
			require.ErrorIs(t, c.Error(tt.attempt.Err, tt.attempt.Result), retry.ErrExhausted)
		})
	}
}

func TestCallFloor(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		delay func(context.Context, retry.Info) time.Duration
		floor time.Duration
		want  time.Duration
	}{
		{"above the backoff", nil, 3 * time.Second, 3 * time.Second},
		{"below the backoff", nil, time.Second, 2 * time.Second},
		{"negative", nil, -time.Second, 2 * time.Second},
		{"delay function that waits", func(context.Context, retry.Info) time.Duration { time.Sleep(time.Second); return 0 }, 3 * time.Second, 3 * time.Second},
		{"delay function that waits long enough", func(context.Context, retry.Info) time.Duration { time.Sleep(4 * time.Second); return 0 }, 3 * time.Second, 4 * time.Second},
		{"delay function, negative", func(context.Context, retry.Info) time.Duration { return -1 }, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				defer takes(t, tt.want)()
				p := core.Must(retry.New(retry.Config{Delay: tt.delay, Backoff: backoff.Constant{Delay: 2 * time.Second}}))
				c := p.Begin(nil)
				require.Equal(t, retry.Again, c.Next(t.Context(), retry.Attempt{Err: errBoom, Retryable: true, Floor: tt.floor}))
				require.NoError(t, c.Wait(t.Context()))
			})
		})
	}
}

// A floor is not what the strategy said: it must not grow a decorrelated wait.
func TestStrategyIsToldItsOwnLastAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var told []time.Duration
		p := core.Must(retry.New(retry.Config{MaxAttempts: 9, Backoff: backoff.Func(func(n int, prev time.Duration) time.Duration {
			told = append(told, prev)
			return time.Duration(n) * time.Second
		})}))
		c := p.Begin(nil)
		for range 2 {
			require.Equal(t, retry.Again, c.Next(t.Context(), retry.Attempt{Err: errBoom, Retryable: true, Floor: time.Hour}))
			require.NoError(t, c.Wait(t.Context()))
		}
		require.Equal(t, []time.Duration{0, time.Second}, told)
		require.GreaterOrEqual(t, time.Since(start), 2*time.Hour)
	})
}

func TestCallWithAnotherConfig(t *testing.T) {
	t.Parallel()
	var own, given int
	count := func(n *int) func(context.Context, retry.Retry) { return func(context.Context, retry.Retry) { *n++ } }
	var events []string
	p := core.Must(retry.New(retry.Config{Backoff: backoff.Constant{}, Registry: noted(&events), OnRetry: count(&own)}))
	override := with(p.Config(), func(c *retry.Config) { c.MaxAttempts, c.OnRetry = 2, count(&given) })
	require.NoError(t, override.Validate())
	c := p.Begin(&override)
	failure := retry.Attempt{Err: errBoom, Retryable: true}
	require.Equal(t, retry.Again, c.Next(t.Context(), failure))
	require.NoError(t, c.Wait(t.Context()))
	require.Equal(t, retry.Exhausted, c.Next(t.Context(), failure))
	require.Zero(t, own)
	require.Equal(t, 1, given)
	require.Equal(t, []string{"again 1", "exhausted 1"}, events)
	require.EqualValues(t, 1, p.Stats().FailedRetried, "counted where it belongs")
	require.Zero(t, p.Config().MaxAttempts, "unchanged")
}

func TestCallInfoAndContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		defer takes(t, time.Second)()
		p := core.Must(retry.New(retry.Config{Backoff: backoff.Constant{Delay: time.Second}, MaxElapsed: time.Hour}))
		c, ctx := p.Begin(nil), t.Context()
		require.Equal(t, ctx, c.Context(ctx), "nothing is added for a first attempt")
		require.Zero(t, c.Info())
		require.Equal(t, retry.Again, c.Next(ctx, retry.Attempt{Err: errBoom, Result: "half", Retryable: true}))
		require.NoError(t, c.Wait(ctx))
		want := retry.Info{Retry: 1, Err: errBoom, Result: "half", Delay: time.Second, Verdict: retry.Again}
		require.Equal(t, want, c.Info())
		require.Equal(t, want, retry.FromContext(c.Context(ctx)))
		require.Zero(t, retry.FromContext(ctx))

		inner := p.Begin(nil)
		require.Zero(t, retry.FromContext(inner.Context(c.Context(ctx))), "a first attempt shows nothing of a retry further out")
	})
}

func TestElapsed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		defer takes(t, 5*time.Second)()
		var seen []time.Duration
		p := core.Must(retry.New(retry.Config{
			MaxAttempts: 2, Backoff: backoff.Constant{Delay: 3 * time.Second},
			Registry: observed(func(_ string, e registry.Event) { seen = append(seen, e.Attr("elapsed").Duration()) }),
		}))
		_, _ = retry.Do(t.Context(), p, func(context.Context) (int, error) { time.Sleep(time.Second); return 0, errBoom })
		require.Equal(t, []time.Duration{time.Second, 5 * time.Second}, seen)
	})
}
