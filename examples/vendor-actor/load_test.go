package main

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCallsAreOfferedInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &load{config: config{calls: 100, rate: 7, scale: 3}, start: time.Now()}
		var mu sync.Mutex
		l.offer(t.Context(), func(_ context.Context, n int) error {
			mu.Lock()
			require.Equal(t, l.at(n-1), time.Since(l.start))
			mu.Unlock()
			time.Sleep(time.Hour) // other calls do not wait for this one
			if n == 50 {
				return errors.New("of 50")
			}
			return nil
		})
		require.EqualValues(t, 99, l.served.Load())
		require.EqualValues(t, 1, l.failed.Load())
		require.EqualError(t, l.first, "of 50")
	})
}

func TestStalledControlIsStopped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &load{config: config{calls: 100, rate: 10, scale: 10}, start: time.Now()}
		ctx, stop := context.WithCancelCause(t.Context())
		go l.watch(ctx, stop)
		time.Sleep(6 * time.Second)
		require.NoError(t, ctx.Err(), "the load took 1 second, and a minute is 6")
		l.note(ctx, nil)
		time.Sleep(6 * time.Second)
		require.NoError(t, ctx.Err())
		time.Sleep(time.Second)
		require.ErrorIs(t, context.Cause(ctx), errStalled)
	})
}
