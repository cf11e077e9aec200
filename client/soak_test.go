//go:build soak

package client_test

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/plugins/breaker"
	"github.com/gresil/gresil/plugins/retry"
	"github.com/gresil/gresil/plugins/timeout"
)

// openBodies counts the response bodies that are opened and closed.
type openBodies struct {
	http.RoundTripper
	opened, closed atomic.Int64
}

type countedBody struct {
	io.ReadCloser
	once sync.Once
	n    *atomic.Int64
}

func (b *countedBody) Close() error {
	b.once.Do(func() { b.n.Add(1) })
	return b.ReadCloser.Close()
}

func (c *openBodies) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := c.RoundTripper.RoundTrip(req)
	if err == nil {
		c.opened.Add(1)
		resp.Body = &countedBody{ReadCloser: resp.Body, n: &c.closed}
	}
	return resp, err
}

// TestSoakBadServer: 40,000 requests to a real server that fails in every way, and
// nothing is left open.
func TestSoakBadServer(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body) // else net/http does not notice that the client left
		if err != nil {
			return
		}
		switch n := rand.IntN(100); {
		case n < 5:
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, strings.Repeat("x", 1<<20))
		case n < 15:
			w.WriteHeader(http.StatusServiceUnavailable)
		case n < 17:
			<-r.Context().Done()
		case n < 22:
			panic(http.ErrAbortHandler)
		case n < 24:
			w.WriteHeader(http.StatusInternalServerError)
			w.(http.Flusher).Flush()
			<-r.Context().Done() // a body that stalls
		default:
			_, _ = w.Write(body)
		}
	}))
	srv.Config.ErrorLog = nil
	srv.Start()
	base := &openBodies{RoundTripper: &http.Transport{MaxConnsPerHost: 16}}
	attempts, err := timeout.NewAttempt(timeout.Config{Limit: 50 * time.Millisecond})
	require.NoError(t, err)
	total, err := timeout.NewTotal(timeout.Config{Limit: time.Second}) // also of the body that stalls
	require.NoError(t, err)
	retries, err := retry.New(retry.Config{MaxAttempts: 4, Backoff: backoff.Constant{Wait: time.Millisecond, Jitter: 1}, Drain: client.Drain{Time: 20 * time.Millisecond}})
	require.NoError(t, err)
	breakers, err := breaker.NewClient(breaker.ClientConfig{FailureRate: 1})
	require.NoError(t, err)
	c := &http.Client{Transport: client.New(base, total, attempts, retries, breakers)}

	before := runtime.NumGoroutine()
	start := time.Now()
	var ok, failed, canceled atomic.Int64
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			for range 1250 {
				ctx, cancel := context.WithCancel(context.Background())
				if rand.IntN(50) == 0 {
					time.AfterFunc(time.Duration(rand.IntN(5))*time.Millisecond, cancel)
				}
				req, err := http.NewRequestWithContext(ctx, http.MethodPut, srv.URL, strings.NewReader("ping"))
				if err != nil {
					t.Error(err)
				}
				resp, err := c.Do(req)
				switch {
				case err == nil:
					body, readErr := io.ReadAll(io.LimitReader(resp.Body, 16))
					if resp.StatusCode == http.StatusOK && readErr == nil && string(body) != "ping" {
						t.Errorf("body %q", body)
					}
					_ = resp.Body.Close()
					ok.Add(1)
				case ctx.Err() != nil:
					canceled.Add(1)
				default:
					failed.Add(1)
				}
				cancel()
			}
		})
	}
	wg.Wait()
	t.Logf("40,000 requests in %v: %d answered, %d failed, %d canceled; %d responses, %d bodies closed, %d retries",
		time.Since(start).Round(time.Millisecond), ok.Load(), failed.Load(), canceled.Load(), base.opened.Load(), base.closed.Load(), retries.Stats().Retries)
	require.Equal(t, base.opened.Load(), base.closed.Load(), "every body is closed")
	require.Greater(t, ok.Load(), int64(30_000))
	c.CloseIdleConnections()
	srv.Close()
	require.Eventually(t, func() bool { return runtime.NumGoroutine() <= before }, 10*time.Second, 10*time.Millisecond, "no goroutine is left")
}
