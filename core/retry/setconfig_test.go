package retry_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/core/retry"
)

// A call ends under the Config that it began with.
func TestSetConfigInACall(t *testing.T) {
	t.Parallel()
	var before, after int
	count := func(n *int) func(context.Context, retry.Retry) { return func(context.Context, retry.Retry) { *n++ } }
	old := retry.Config{Backoff: backoff.Constant{}, OnRetry: count(&before), Map: retry.MapError(func(err error) error { return err })}
	p := core.Must(retry.New(old))
	calls := 0
	_, err := retry.Do(t.Context(), p, func(context.Context) (int, error) {
		if calls++; calls == 1 {
			require.NoError(t, p.SetConfig(retry.Config{
				MaxAttempts: 1, OnRetry: count(&after), RetryIf: func(error) bool { return false },
				Map: retry.MapError(func(error) error { return nil }),
			}))
		}
		return 0, errBoom
	})
	require.ErrorIs(t, err, errBoom)
	require.Equal(t, 3, calls)
	require.Equal(t, 2, before)
	require.Zero(t, after)
}

func TestSetConfigInACallThatIsRetriedForItsResult(t *testing.T) {
	t.Parallel()
	p := core.Must(retry.New(retry.Config{Backoff: backoff.Constant{}, RetryResult: func(any) bool { return true }}))
	calls := 0
	_, err := retry.Do(t.Context(), p, func(context.Context) (int, error) {
		calls++
		require.NoError(t, p.SetConfig(retry.Config{}))
		return calls, nil
	})
	require.ErrorIs(t, err, retry.ErrExhausted)
	require.Equal(t, 3, calls)
	got, err := retry.Do(t.Context(), p, func(context.Context) (int, error) { return 1, nil })
	require.NoError(t, err)
	require.Equal(t, 1, got)
}

// Two fields that belong together are never seen apart.
func TestSetConfigUnderConcurrentUse(t *testing.T) {
	t.Parallel()
	twice := retry.Config{MaxAttempts: 2, Backoff: backoff.Constant{}, Map: func(_ any, err error) (any, error) { return 2, nil }}
	thrice := retry.Config{MaxAttempts: 3, Backoff: backoff.Constant{}, Map: func(_ any, err error) (any, error) { return 3, nil }}
	p := core.Must(retry.New(twice))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for n := range 500 {
				_ = p.SetConfig([]retry.Config{twice, thrice}[n%2])
			}
		})
		wg.Go(func() {
			for range 500 {
				calls := 0
				got, err := retry.Do(t.Context(), p, func(context.Context) (int, error) { calls++; return 0, errBoom })
				if err != nil || got != calls {
					t.Errorf("%d attempts under a Config for %d, %v", calls, got, err)
				}
			}
		})
	}
	wg.Wait()
}
