package timeout_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/plugins/timeout"
	"github.com/gresil/gresil/resiltest"
)

// A dialer can look up a name, or make a tunnel, by a request of its own. It has the
// context of the first request, and with it the trace.
func TestARequestOfADialerDoesNotStartTheWaitForHeaders(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network := resiltest.NewNetwork()
		names := resiltest.Serve(t, network.Listen("names.test:80"), http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		srv := resiltest.Serve(t, network.Listen(""), http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
		lookup, tr := names.Transport(), srv.Transport()
		dial := tr.DialContext
		tr.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			resp, err := lookup.RoundTrip(core.Must(http.NewRequestWithContext(ctx, http.MethodGet, names.URL, nil)))
			if err != nil {
				return nil, err
			}
			_ = resp.Body.Close()
			return dial(ctx, network, addr)
		}
		plugin := core.Must(timeout.NewAttempt(timeout.Config{Limit: -1, ResponseHeader: 2 * time.Second}))
		req := core.Must(http.NewRequestWithContext(t.Context(), http.MethodPut, srv.URL, nil))
		req.Body, req.ContentLength = slowly(t.Context(), 60), -1
		resp, err := plugin.Transport(tr).RoundTrip(req)
		require.NoError(t, err, "the upload is not limited")
		require.NoError(t, resp.Body.Close())
	})
}

// The limit of one request has nothing to do with another that has the same context.
func TestRequestsWithOneContextWaitForTheirOwnHeaders(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		srv := resiltest.Serve(t, resiltest.NewNetwork().Listen(""), http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			if r.Method == http.MethodGet {
				<-r.Context().Done()
			}
		}))
		rt := core.Must(timeout.NewAttempt(timeout.Config{Limit: -1, ResponseHeader: 2 * time.Second})).Transport(srv.Transport())
		ctx, start := t.Context(), time.Now()
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				req := core.Must(http.NewRequestWithContext(ctx, http.MethodPut, srv.URL, nil))
				req.Body, req.ContentLength = slowly(ctx, 60), -1
				resp, err := rt.RoundTrip(req)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
			})
			all.Go(func() {
				time.Sleep(time.Second)
				_, err := rt.RoundTrip(core.Must(http.NewRequestWithContext(ctx, http.MethodGet, srv.URL, nil)))
				require.ErrorIs(t, err, timeout.ErrTimeout)
				require.Equal(t, 3*time.Second, time.Since(start))
			})
		}
		all.Wait()
	})
}

// An inner RoundTripper may send a request again, on a connection that takes long to get.
func TestTheWaitForHeadersEndsWhereARequestIsSentAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		srv := resiltest.Serve(t, resiltest.NewNetwork().Listen(""), http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		tr := srv.Transport()
		tr.DisableKeepAlives = true
		dial, dialed := tr.DialContext, 0
		tr.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if dialed++; dialed > 1 {
				time.Sleep(time.Minute)
			}
			return dial(ctx, network, addr)
		}
		plugin := core.Must(timeout.NewAttempt(timeout.Config{Limit: -1, ResponseHeader: time.Second}))
		resp, err := plugin.Transport(stub(func(req *http.Request) (*http.Response, error) {
			resp, err := tr.RoundTrip(req)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			return tr.RoundTrip(req)
		})).RoundTrip(core.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL, nil)))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
	})
}
