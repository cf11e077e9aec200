package dispatch_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/outbound/dispatch"
)

func TestTheContextOfAnAttemptIsThatOfItsCaller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		type mark struct{}
		parent, cancel := context.WithTimeout(context.WithValue(t.Context(), mark{}, 1), time.Minute)
		defer cancel()
		d := newDispatcher(t, config{})
		_, err := dispatch.Do(parent, d, "", func(ctx context.Context, _ none) (int, error) {
			want, _ := parent.Deadline()
			got, ok := ctx.Deadline()
			require.True(t, ok)
			require.Equal(t, want, got)
			require.Equal(t, 1, ctx.Value(mark{}))
			require.NoError(t, ctx.Err())
			require.NoError(t, context.Cause(ctx))
			<-ctx.Done()
			require.ErrorIs(t, ctx.Err(), context.DeadlineExceeded)
			return 0, ctx.Err()
		})
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestTheContextOfAnAttemptEndsWithItsCall(t *testing.T) {
	t.Parallel()
	for name, use := range map[string]func(context.Context){
		"not used": func(context.Context) {},
		"Err":      func(ctx context.Context) { _ = ctx.Err() },
		"Done":     func(ctx context.Context) { _ = ctx.Done() },
		"Value":    func(ctx context.Context) { _ = ctx.Value("") },
		"child":    func(ctx context.Context) { _, cancel := context.WithCancel(ctx); cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				type mark struct{}
				parent, cancel := context.WithTimeout(context.WithValue(t.Context(), mark{}, 1), time.Minute)
				defer cancel()
				var kept context.Context
				_, err := dispatch.Do(parent, newDispatcher(t, config{}), "", func(ctx context.Context, _ none) (int, error) {
					kept = ctx //nolint:fatcontext // it is what is tested
					use(ctx)
					return 0, nil
				})
				require.NoError(t, err)
				require.ErrorIs(t, kept.Err(), context.Canceled)
				child, stop := context.WithCancel(kept)
				defer stop()
				<-child.Done()
				<-kept.Done()
				require.Equal(t, 1, kept.Value(mark{}))
				time.Sleep(time.Hour)
				require.ErrorIs(t, kept.Err(), context.Canceled, "it does not change")
				require.ErrorIs(t, context.Cause(kept), context.Canceled)
			})
		})
	}
}

func TestCloseEndsTheContextsOfAttemptsWithACause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDispatcher(t, config{})
		done := make(chan error)
		go func() {
			_, err := dispatch.Do(t.Context(), d, "", func(ctx context.Context, _ none) (int, error) {
				type mark struct{}
				child, cancel := context.WithTimeout(context.WithValue(ctx, mark{}, 1), time.Hour)
				defer cancel()
				<-child.Done()
				return 0, context.Cause(child)
			})
			done <- err
		}()
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		go func() { _ = d.Close(ctx) }()
		require.ErrorIs(t, <-done, dispatch.ErrClosed)
	})
}

// Not parallel: it counts goroutines.
func TestAChildOfTheContextStartsNoGoroutine(t *testing.T) {
	d := newDispatcher(t, config{})
	_, err := dispatch.Do(t.Context(), d, "", func(ctx context.Context, _ none) (int, error) {
		before := runtime.NumGoroutine()
		for range 100 {
			_, cancel := context.WithCancel(ctx)
			defer cancel()
		}
		require.LessOrEqual(t, runtime.NumGoroutine(), before)
		return 0, nil
	})
	require.NoError(t, err)
}
