package retry_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/core/retry"
	"github.com/gresil/gresil/internal/registry"
)

func TestDelayFunctionHoldsStateAndSeesTheAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		defer takes(t, 45*200*ms)()
		calls, seen := 0, []int{}
		p := core.Must(retry.New(retry.Config{MaxAttempts: 10, Delay: func(_ context.Context, info retry.Info) time.Duration {
			calls++
			seen = append(seen, info.Retry)
			require.ErrorIs(t, info.Err, errBoom)
			return time.Duration(calls) * 200 * ms
		}}))
		_, err := retry.Do(t.Context(), p, (&script{ends: []error{errBoom}}).run)
		require.ErrorIs(t, err, retry.ErrExhausted)
		require.Equal(t, []int{1, 2, 3, 4, 5, 6, 7, 8, 9}, seen)
	})
}

func TestErrorThatIsNotRetried(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		defer takes(t, 0)()
		var events []string
		p := core.Must(retry.New(retry.Config{
			RetryIf: func(err error) bool { return errors.Is(err, errWeb) }, Backoff: exactly(), Registry: noted(&events),
		}))
		op := &script{ends: []error{errBoom}}
		_, err := retry.Do(t.Context(), p, op.run)
		require.Equal(t, errBoom, err, "bare")
		require.Equal(t, 1, op.calls)
		require.Equal(t, []string{"ignored 0"}, events)
	})
}

func TestFirstSuccessHasNoEvents(t *testing.T) {
	t.Parallel()
	var events []string
	p := core.Must(retry.New(retry.Config{Registry: noted(&events)}))
	op := &script{ends: []error{nil}}
	got, err := retry.Do(t.Context(), p, op.run)
	require.NoError(t, err)
	require.Equal(t, "fine", got)
	require.Equal(t, 1, op.calls)
	require.Empty(t, events)
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	require.Equal(t, 3, retry.DefaultMaxAttempts)
	strategy := retry.DefaultBackoff().(backoff.Exponential)
	strategy.Jitter = -1
	require.Equal(t, 500*ms, strategy.Next(1, 0))
	require.Equal(t, 1000*ms, strategy.Next(2, 0))
	require.Equal(t, 2000*ms, strategy.Next(3, 0))
	require.Equal(t, time.Minute, strategy.Next(99, 0))
	synctest.Test(t, func(t *testing.T) {
		defer takes(t, 1500*ms)()
		p := core.Must(retry.New(retry.Config{Backoff: strategy}))
		op := &script{ends: []error{errBoom}}
		_, err := retry.Do(t.Context(), p, op.run)
		require.ErrorIs(t, err, errBoom)
		require.Equal(t, 3, op.calls)
	})
	p := core.Must(retry.New(retry.Config{}))
	calls := 0
	result, err := retry.Do(t.Context(), p, func(context.Context) (any, error) { calls++; return nil, nil })
	require.NoError(t, err)
	require.Nil(t, result)
	require.Equal(t, 1, calls, "a nil result is not retried")
}

func TestExponentialWaitsAddUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		defer takes(t, 25*time.Second)()
		p := core.Must(retry.New(retry.Config{MaxAttempts: 6, Backoff: backoff.Exponential{Delay: time.Second, Max: 10 * time.Second, Jitter: -1}}))
		op := &script{ends: []error{errBoom}}
		_, err := retry.Do(t.Context(), p, op.run)
		require.ErrorIs(t, err, errBoom)
		require.Equal(t, 6, op.calls)
	})
}

func TestDelayByAttemptAndError(t *testing.T) {
	t.Parallel()
	choose := func(info retry.Info) time.Duration {
		switch {
		case info.Retry%2 == 0:
			return time.Second
		case errors.Is(info.Err, errWeb):
			return 2 * time.Second
		}
		return 3 * time.Second
	}
	for name, waitsItself := range map[string]bool{"returns the wait": false, "waits itself": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				defer takes(t, 6*time.Second)()
				var (
					attempts []int
					errs     []error
					delays   []time.Duration
				)
				p := core.Must(retry.New(retry.Config{MaxAttempts: 4, Delay: func(_ context.Context, info retry.Info) time.Duration {
					d := choose(info)
					attempts, errs, delays = append(attempts, info.Retry), append(errs, info.Err), append(delays, d)
					if waitsItself {
						time.Sleep(d)
						return 0
					}
					return d
				}}))
				op := &script{ends: []error{errBoom, errBoom, errWeb, nil}}
				got, err := retry.Do(t.Context(), p, op.run)
				require.NoError(t, err)
				require.Equal(t, "fine", got)
				require.Equal(t, []int{1, 2, 3}, attempts)
				require.Equal(t, []error{errBoom, errBoom, errWeb}, errs)
				require.Equal(t, []time.Duration{3 * time.Second, time.Second, 2 * time.Second}, delays)
				require.Equal(t, 4, op.calls)
			})
		})
	}
}

func TestNoDelay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		defer takes(t, 0)()
		p := core.Must(retry.New(retry.Config{Backoff: backoff.Constant{}}))
		op := &script{ends: []error{errBoom}}
		_, err := retry.Do(t.Context(), p, op.run)
		require.ErrorIs(t, err, errBoom)
		require.Equal(t, 3, op.calls)
	})
}

func TestMapMaySwallowTheError(t *testing.T) {
	t.Parallel()
	var events []string
	p := core.Must(retry.New(retry.Config{
		Backoff: backoff.Constant{}, Registry: noted(&events),
		Map: func(any, error) (any, error) { return nil, nil },
	}))
	got, err := retry.Do(t.Context(), p, (&script{ends: []error{errBoom}}).run)
	require.NoError(t, err)
	require.Empty(t, got)
	require.Equal(t, []string{"again 1", "again 2", "exhausted 2"}, events)
}

func TestMapThatFailsDoesNotRepeatTheOperation(t *testing.T) {
	t.Parallel()
	mapped := 0
	p := core.Must(retry.New(retry.Config{Map: func(result any, err error) (any, error) {
		mapped++
		return result, errWeb
	}}))
	op := &script{ends: []error{nil}}
	got, err := retry.Do(t.Context(), p, op.run)
	require.Equal(t, errWeb, err)
	require.Equal(t, "fine", got)
	require.Equal(t, 1, op.calls)
	require.Equal(t, 1, mapped)
}

func TestCancelEndsTheWait(t *testing.T) {
	t.Parallel()
	cause := errors.New("the user left")
	synctest.Test(t, func(t *testing.T) {
		defer takes(t, 700*ms)()
		var events []string
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(700*ms, func() { cancel(cause) })
		p := core.Must(retry.New(retry.Config{MaxAttempts: 9, Backoff: exactly(), Registry: noted(&events)}))
		op := &script{ends: []error{errBoom}}
		_, err := retry.Do(ctx, p, op.run)
		require.ErrorIs(t, err, cause)
		require.ErrorIs(t, err, errBoom, "the last error is reachable")
		require.NotErrorIs(t, err, retry.ErrExhausted)
		var canceled *retry.Error
		require.ErrorAs(t, err, &canceled)
		require.Equal(t, 2, canceled.Attempts)
		require.False(t, canceled.Timeout())
		require.Equal(t, 2, op.calls)
		require.Equal(t, []string{"again 1", "again 2", "canceled 1"}, events)
		s := p.Stats()
		require.EqualValues(t, 1, s.Suppressed[retry.Canceled])
		require.EqualValues(t, 1, s.FailedRetried)
		require.EqualValues(t, 1, s.Retries)
	})
}

func TestRejectionWaitsAsLongAsItAsks(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		asks, want time.Duration
		asked      bool
	}{
		{4 * time.Second, 4 * time.Second, true},
		{100 * ms, 500 * ms, false},
		{500 * ms, 500 * ms, false},
	} {
		t.Run(tt.asks.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				defer takes(t, tt.want)()
				var told registry.Event
				p := core.Must(retry.New(retry.Config{Backoff: exactly(), RetryRejected: true, Registry: observed(func(verdict string, e registry.Event) {
					if verdict == "again" {
						told = e
					}
				})}))
				op := &script{ends: []error{fmt.Errorf("inside: %w", rejection{tt.asks}), nil}}
				_, err := retry.Do(t.Context(), p, op.run)
				require.NoError(t, err)
				require.Equal(t, tt.want, told.Attr("delay").Duration())
				require.Equal(t, tt.asked, told.Attr("source").String() == "retry_after")
			})
		})
	}
}
