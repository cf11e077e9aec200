package client_test

import (
	"context"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/internal/resiltest"
	"github.com/gresil/gresil/plugins/ratelimit"
	"github.com/gresil/gresil/plugins/retry"
	"github.com/gresil/gresil/plugins/timeout"
)

func canceledAfter(t *testing.T, d time.Duration, url string) *http.Request {
	t.Helper()
	stop := make(chan struct{})
	req := core.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil))
	req.Cancel = stop //nolint:staticcheck // it is what is tested
	time.AfterFunc(d, func() { close(stop) })
	return req
}

func TestRequestCancelEndsTheWaitsOfALimiter(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]ratelimit.ClientConfig{
		"limit":          {Limit: ratelimit.TokenBucket(1, time.Hour, 1), MaxWait: -1},
		"a rate.Limiter": {Limiter: rate.NewLimiter(rate.Every(time.Hour), 1), MaxWait: -1},
		"bounded":        {Limit: ratelimit.TokenBucket(1, time.Hour, 1), MaxWait: 2 * time.Hour},
		"held":           {MaxWait: -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				limiter := core.Must(ratelimit.NewClient(cfg))
				s := resiltest.NewScript()
				rt := client.New(s, limiter)
				resp, err := rt.RoundTrip(core.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, "http://example.test/", nil)))
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				if name == "held" {
					limiter.Cooldown().Hold(t.Context(), client.Host(canceledAfter(t, 0, "http://example.test/")), time.Hour)
				}
				start := time.Now()
				_, err = rt.RoundTrip(canceledAfter(t, time.Minute, "http://example.test/"))
				require.ErrorIs(t, err, context.Canceled)
				require.Equal(t, time.Minute, time.Since(start))
				require.Equal(t, 1, s.Calls())
				_, err = rt.RoundTrip(canceledAfter(t, 0, "http://example.test/"))
				require.ErrorIs(t, err, context.Canceled)
				synctest.Wait()
			})
		})
	}
}

func TestRequestCancelEndsAttemptsAndBodies(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
		for name, reply := range map[string]resiltest.Reply{
			"before the headers": {Delay: -1},
			"in the body":        {Body: "x", Stall: -1},
		} {
			t.Run(name+" "+protocol, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					srv := resiltest.Serve(t, resiltest.NewNetwork().Listen(""), resiltest.NewScript(reply))
					tr := srv.Transport()
					if protocol == "HTTP/2.0" {
						tr.Protocols = resiltest.HTTP2()
					}
					total := timeout.NewClient(core.Must(timeout.New(timeout.Config{Limit: time.Hour})), timeout.ClientOptions{})
					attempt := timeout.NewClient(core.Must(timeout.New(timeout.Config{Limit: time.Hour})), timeout.ClientOptions{PerAttempt: true})
					policy := core.Must(retry.New(retry.Config{Backoff: backoff.Constant{}}))
					start := time.Now()
					resp, err := client.New(tr, total, retry.NewClient(policy, retry.ClientOptions{}), attempt).RoundTrip(canceledAfter(t, time.Minute, srv.URL))
					if name == "in the body" {
						require.NoError(t, err)
						_, err = io.ReadAll(resp.Body)
						_ = resp.Body.Close() // HTTP/2 returns the error once more
					}
					require.Error(t, err)
					require.Equal(t, time.Minute, time.Since(start))
					require.Zero(t, policy.Stats().Retries)
				})
			})
		}
	}
}

// http.Client closes Cancel at its Timeout, and leaves it open otherwise.
func TestNoGoroutineIsLeftByTheTimeoutOfAnHTTPClient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // it fails when goroutines are left
		s := resiltest.NewScript(resiltest.Reply{Status: 503, Body: "x"}, resiltest.Reply{Status: 503, Body: "x"}, resiltest.Reply{Body: "x"})
		c := &http.Client{Timeout: time.Hour, Transport: client.New(s,
			retry.NewClient(nil, retry.ClientOptions{}),
			core.Must(ratelimit.NewClient(ratelimit.ClientConfig{Limit: ratelimit.TokenBucket(1, time.Minute, 1), MaxWait: -1})),
			timeout.NewClient(nil, timeout.ClientOptions{PerAttempt: true}))}
		resp, err := c.Get("http://example.test/")
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, 3, s.Calls())
	})
}
