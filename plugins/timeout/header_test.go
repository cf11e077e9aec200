package timeout_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/plugins/timeout"
	"github.com/gresil/gresil/resiltest"
)

// slowly is a body of n bytes, each of which takes a second.
func slowly(ctx context.Context, n int) io.ReadCloser {
	return resiltest.Reply{Body: string(bytes.Repeat([]byte("x"), n)), Pace: time.Second}.NewBody(ctx)
}

func TestResponseHeaderCountsFromTheEndOfTheRequest(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		cfg    timeout.Config
		upload int           // seconds
		think  time.Duration // of the server, once it has read the request
		took   time.Duration
		limit  time.Duration // that struck; zero for none
	}{
		{"a long upload", timeout.Config{Limit: -1, ResponseHeader: 2 * time.Second}, 60, time.Second, 61 * time.Second, 0},
		{"a slow answer", timeout.Config{Limit: -1, ResponseHeader: 2 * time.Second}, 60, time.Hour, 62 * time.Second, 2 * time.Second},
		{"no body", timeout.Config{Limit: -1, ResponseHeader: 2 * time.Second}, 0, time.Hour, 2 * time.Second, 2 * time.Second},
		{"beside Limit", timeout.Config{Limit: time.Minute, ResponseHeader: 2 * time.Second}, 10, time.Hour, 12 * time.Second, 2 * time.Second},
		{"Limit is nearer", timeout.Config{Limit: 5 * time.Second, ResponseHeader: 2 * time.Second}, 10, 0, 5 * time.Second, 5 * time.Second},
		{"with CutBody", timeout.Config{Limit: time.Minute, CutBody: true, ResponseHeader: 2 * time.Second}, 10, time.Second, 11 * time.Second, 0},
		{"only Limit", timeout.Config{Limit: 5 * time.Second}, 10, 0, 5 * time.Second, 5 * time.Second},
	} {
		for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
			t.Run(tt.name+" "+protocol, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					srv := resiltest.Serve(t, resiltest.NewNetwork().Listen(""), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						_, _ = io.Copy(io.Discard, r.Body)
						select {
						case <-time.After(tt.think):
							_ = http.NewResponseController(w).Flush()
							time.Sleep(5 * time.Second) // the body is not the headers
							_, _ = io.WriteString(w, r.Proto)
						case <-r.Context().Done():
						}
					}))
					tr := srv.Transport()
					if protocol == "HTTP/2.0" {
						tr.Protocols = resiltest.HTTP2()
					}
					plugin := core.Must(timeout.NewAttempt(tt.cfg))
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					req := core.Must(http.NewRequestWithContext(ctx, http.MethodPut, srv.URL, nil))
					if tt.upload > 0 {
						req.Body, req.ContentLength = slowly(ctx, tt.upload), -1
					}
					start := time.Now()
					resp, err := plugin.Transport(tr).RoundTrip(req)
					took := time.Since(start)
					if tt.limit == tt.took { // HTTP/1 waits for the read of the body that is under way
						took = took.Truncate(tt.took)
					}
					require.Equal(t, tt.took, took)
					if tt.limit > 0 {
						requireTimeout(t, err, "attempt")
						var e *timeout.Error
						require.ErrorAs(t, err, &e)
						require.Equal(t, tt.limit, e.Limit)
						require.EqualValues(t, 1, plugin.Stats().TimedOut)
						return
					}
					require.NoError(t, err)
					text, err := io.ReadAll(resp.Body)
					require.NoError(t, err)
					require.Equal(t, protocol, string(text))
					require.NoError(t, resp.Body.Close())
					require.Equal(t, timeout.Stats{Succeeded: 1}, plugin.Stats())
				})
			})
		}
	}
}

func TestResponseHeaderDoesNotCountTheDialing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		srv := resiltest.Serve(t, resiltest.NewNetwork().Listen(""), http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		tr := srv.Transport()
		dial := tr.DialContext
		tr.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			time.Sleep(time.Minute)
			return dial(ctx, network, addr)
		}
		plugin := core.Must(timeout.NewAttempt(timeout.Config{Limit: -1, ResponseHeader: time.Second}))
		resp, err := plugin.Transport(tr).RoundTrip(core.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL, nil)))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
	})
}

func TestResponseHeaderConfig(t *testing.T) {
	t.Parallel()
	bad := timeout.Config{ResponseHeader: -1}
	require.Equal(t, []string{"timeout.Config.ResponseHeader"}, fields(t, bad.Validate()))
	set := timeout.Config{ResponseHeader: time.Second}
	_, err := timeout.NewTotal(set)
	require.Equal(t, []string{"timeout.Config.ResponseHeader"}, fields(t, err))
	total := core.Must(timeout.NewTotal(timeout.Config{}))
	require.Equal(t, []string{"timeout.Config.ResponseHeader"}, fields(t, total.SetConfig(set)))
	ctx := total.Override(t.Context(), func(c *timeout.Config) { c.ResponseHeader = time.Second })
	_, err = get(t, ctx, total.Transport(after(0, "")))
	require.ErrorIs(t, err, core.ErrConfig)
}

func TestResponseHeaderByOverride(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, _ := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-time.After(time.Minute):
			case <-r.Context().Done():
			}
		}))
		plugin := core.Must(timeout.NewAttempt(timeout.Config{Limit: time.Hour}))
		c.Transport = plugin.Transport(c.Transport)
		ctx := plugin.Override(t.Context(), func(c *timeout.Config) { c.ResponseHeader = time.Second })
		_, err := c.Do(core.Must(http.NewRequestWithContext(ctx, http.MethodGet, "http://example.test/", nil)))
		require.ErrorIs(t, err, timeout.ErrTimeout)
		ctx = plugin.Override(ctx, disable)
		resp, err := c.Do(core.Must(http.NewRequestWithContext(ctx, http.MethodGet, "http://example.test/", nil)))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
	})
}
