package request_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/internal/request"
)

// A bubble does not end while a goroutine of it waits.
func TestAReleasedContextHasNoGoroutine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://a.test", nil)
		require.NoError(t, err)
		req.Cancel = make(chan struct{}) //nolint:staticcheck // it is the subject
		ctx := request.Context(req)
		require.NotNil(t, ctx.Done())
		synctest.Wait()
		request.Release(ctx)
		request.Release(ctx)
		require.NoError(t, ctx.Err())
		later := request.Context(req)
		request.Release(later)
		select {
		case <-later.Done(): // starts none
			require.Fail(t, "it has not ended")
		default:
		}
	})
}

func TestTheCancelChannelEndsAContext(t *testing.T) {
	t.Parallel()
	for _, deadline := range []time.Duration{time.Minute, 2 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			parent, stop := context.WithTimeout(context.Background(), deadline)
			defer stop()
			req, err := http.NewRequestWithContext(parent, http.MethodGet, "http://a.test", nil)
			require.NoError(t, err)
			canceled := make(chan struct{})
			req.Cancel = canceled //nolint:staticcheck // it is the subject
			ctx := request.Context(req)
			defer request.Release(ctx)
			time.AfterFunc(time.Minute, func() { close(canceled) })
			<-ctx.Done()
			want := context.Canceled
			if deadline == time.Minute {
				want = context.DeadlineExceeded
			}
			require.ErrorIs(t, ctx.Err(), want)
			require.ErrorIs(t, context.Cause(ctx), want)
		})
	}
}
