package retry_test

import (
	"context"
	"errors"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/core/retry"
)

type statusError int

func (statusError) Error() string { return "status" }

func TestCancelInTheWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		defer takes(t, time.Second)()
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		p := core.Must(retry.New(retry.Config{Backoff: backoff.Constant{Delay: time.Hour}}))
		_, err := retry.Do(ctx, p, (&script{ends: []error{statusError(503)}}).run)
		require.ErrorIs(t, err, context.Canceled)
		var status statusError
		require.ErrorAs(t, err, &status)
		require.Equal(t, statusError(503), status)
		require.EqualError(t, err, "retry: ended while waiting after 1 attempts: context canceled (last error: status)")
	})
}

func TestAttemptTimeoutIsNotTheCallersDeadline(t *testing.T) {
	t.Parallel()
	hang := func(ctx context.Context) (int, error) {
		ctx, cancel := context.WithTimeout(ctx, 50*ms)
		defer cancel()
		if retry.FromContext(ctx).Retry == 2 {
			return 7, nil
		}
		<-ctx.Done()
		return 0, ctx.Err()
	}
	p := core.Must(retry.New(retry.Config{Backoff: backoff.Constant{}}))
	synctest.Test(t, func(t *testing.T) {
		defer takes(t, 100*ms)()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		got, err := retry.Do(ctx, p, hang)
		require.NoError(t, err)
		require.Equal(t, 7, got)
	})
	synctest.Test(t, func(t *testing.T) {
		defer takes(t, 20*ms)()
		ctx, cancel := context.WithTimeout(t.Context(), 20*ms)
		defer cancel()
		_, err := retry.Do(ctx, p, hang)
		require.Equal(t, context.DeadlineExceeded, err, "the caller's: no retry")
	})
}

func TestJitterOnlyAddsToTheFloor(t *testing.T) {
	t.Parallel()
	for range 20 {
		var told time.Duration
		synctest.Test(t, func(t *testing.T) {
			p := core.Must(retry.New(retry.Config{
				RetryRejected: true,
				Backoff:       backoff.Linear{Delay: time.Second},
				OnRetry:       func(_ context.Context, r retry.Retry) { told = r.Wait },
			}))
			_, err := retry.Do(t.Context(), p, (&script{ends: []error{rejection{2 * time.Second}, nil}}).run)
			require.NoError(t, err)
		})
		require.GreaterOrEqual(t, told, 2*time.Second)
		require.LessOrEqual(t, told, 2500*ms, "the random part of the wait")
	}
	synctest.Test(t, func(t *testing.T) {
		defer takes(t, 3*time.Second)()
		p := core.Must(retry.New(retry.Config{RetryRejected: true, Backoff: backoff.Constant{Delay: 3 * time.Second}}))
		_, err := retry.Do(t.Context(), p, (&script{ends: []error{rejection{2 * time.Second}, nil}}).run)
		require.NoError(t, err)
	})
}

func TestRejectionsAreNotRetried(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		defer takes(t, 0)()
		p := core.Must(retry.New(retry.Config{}))
		op := &script{ends: []error{rejection{time.Second}}}
		_, err := retry.Do(t.Context(), p, op.run)
		require.ErrorIs(t, err, core.ErrRejected)
		require.Equal(t, 1, op.calls)
	})
}

// net/http looks no deeper than this for a timeout.
func TestAnErrorTellsOfATimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		defer takes(t, time.Second)()
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(context.DeadlineExceeded) })
		p := core.Must(retry.New(retry.Config{Backoff: backoff.Constant{Delay: time.Hour}}))
		_, err := retry.Do(ctx, p, (&script{ends: []error{errBoom}}).run)
		require.True(t, (&url.Error{Err: err}).Timeout())
		require.NotErrorIs(t, err, retry.ErrExhausted)
		require.ErrorIs(t, err, errBoom)
	})
	require.Equal(t, "retry: ended while waiting after 2 attempts: web",
		(&retry.Error{Attempts: 2, Cause: errWeb}).Error())
	require.NotErrorIs(t, &retry.Error{Cause: errWeb}, errBoom)
	require.False(t, errors.Is(&retry.Error{Cause: errWeb}, nil))
	require.True(t, (&retry.Error{Err: context.DeadlineExceeded}).Timeout(), "that of the last attempt")
	require.False(t, (&retry.Error{Err: errWeb}).Timeout())
	require.False(t, (&retry.Error{}).Timeout())
	require.False(t, (&retry.Error{Cause: errWeb, Err: context.DeadlineExceeded}).Timeout())
}
