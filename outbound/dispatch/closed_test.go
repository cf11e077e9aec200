package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/resiltest"
	"github.com/gresil/gresil/outbound/dispatch"
)

func TestARequestThatCloseCancelsAfterItArrivedIsNoRejection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var arrived atomic.Int64
		srv := resiltest.Serve(t, resiltest.NewNetwork().Listen(""), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			arrived.Add(1)
			_, _ = io.Copy(io.Discard, r.Body)
			if r.URL.Path == "/body" {
				_, _ = io.WriteString(w, "start")
				_ = http.NewResponseController(w).Flush()
			}
			<-r.Context().Done()
		}))
		d := core.Must(dispatch.New(config{}))
		rt := dispatch.RoundTripper(d, srv.Transport(), nil)
		errs := make(chan error, 2)
		for _, path := range []string{"/", "/body"} {
			go func() {
				resp, err := rt.RoundTrip(core.Must(http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL+path, strings.NewReader("x"))))
				if err == nil {
					_, err = io.ReadAll(resp.Body)
				}
				errs <- err
			}()
		}
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, d.Close(ctx), context.DeadlineExceeded)
		for range 2 {
			err := <-errs
			require.ErrorIs(t, err, dispatch.ErrClosed)
			require.NotErrorIs(t, err, core.ErrRejected)
			require.False(t, client.NotSent(err))
		}
		require.EqualValues(t, 2, arrived.Load())
	})
}

func TestACallThatCloseCancelsMatchesItsOwnErrorAsWell(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDispatcher(t, config{Capacity: 1})
		time.AfterFunc(time.Second, func() {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			_ = d.Close(ctx)
		})
		_, err := dispatch.Do(t.Context(), d, "", func(ctx context.Context, _ none) (int, error) {
			<-ctx.Done()
			require.ErrorIs(t, context.Cause(ctx), dispatch.ErrClosed)
			return 0, fmt.Errorf("%w: %w", &fs.PathError{Op: "read", Err: io.ErrUnexpectedEOF}, dispatch.ErrFull)
		})
		_, as := errors.AsType[*fs.PathError](err)
		require.True(t, as)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.ErrorIs(t, err, dispatch.ErrFull)
		require.ErrorIs(t, err, dispatch.ErrClosed)
		require.NotErrorIs(t, err, core.ErrRejected)
	})
}
