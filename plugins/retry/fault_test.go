package retry_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	corelimit "github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/plugins/breaker"
	"github.com/gresil/gresil/plugins/ratelimit"
	"github.com/gresil/gresil/plugins/retry"
)

func TestAServerThatDoesNotSpeakTLSIsAskedOnce(t *testing.T) {
	t.Parallel()
	var conns atomic.Int32
	plain := httptest.NewUnstartedServer(http.NotFoundHandler())
	plain.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			conns.Add(1)
		}
	}
	plain.Start()
	t.Cleanup(plain.Close)
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	req := core.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, "https"+strings.TrimPrefix(plain.URL, "http"), nil))
	_, err := quick(retry.Config{}).Transport(tr).RoundTrip(req)
	require.ErrorAs(t, err, new(tls.RecordHeaderError))
	require.EqualValues(t, 1, conns.Load())
}

func TestARequestThatCannotBeSentIsNotRetried(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*http.Request){
		"newline in a value":          func(r *http.Request) { r.Header.Set("X-A", "a\nb") },
		"name of a header":            func(r *http.Request) { r.Header["X A"] = []string{"a"} },
		"no header":                   func(r *http.Request) { r.Header = nil },
		"method":                      func(r *http.Request) { r.Method = "GET IT" },
		"name of a trailer":           func(r *http.Request) { r.Trailer = http.Header{"X A": nil} },
		"trailer that is not allowed": func(r *http.Request) { r.Trailer = http.Header{"Content-Length": nil} },
		"length without a body":       func(r *http.Request) { r.ContentLength = 5 },
		"no host":                     func(r *http.Request) { r.URL = &url.URL{Scheme: "https"} },
		"scheme":                      func(r *http.Request) { r.URL.Scheme = "gopher" },
	} {
		for which, cfg := range map[string]retry.Config{
			"zero":           {},
			"any error":      {RetryIf: func(error) bool { return true }},
			"any method":     {AnyMethod: true},
			"wrapped policy": {CheckRetry: retry.DefaultCheckRetry},
		} {
			var attempts int
			tr := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no") }}
			rt := quick(cfg).Transport(roundTrip(func(req *http.Request) (*http.Response, error) {
				attempts++
				return tr.RoundTrip(req)
			}))
			req := get(t)
			change(req)
			_, err := rt.RoundTrip(req)
			require.Error(t, err)
			require.Equal(t, 1, attempts, "%s: %s: %v", name, which, err)
			require.NotErrorIs(t, err, retry.ErrMaybeProcessed)
		}
	}
}

func TestARequestBodyThatCannotBeSentIsNotRetried(t *testing.T) {
	t.Parallel()
	errRead := errors.New("the disk is gone")
	fails := func() io.ReadCloser {
		return io.NopCloser(io.MultiReader(strings.NewReader("abc"), iotest.ErrReader(errRead)))
	}
	good := func() io.ReadCloser { return io.NopCloser(strings.NewReader("abcdef")) }
	for name, c := range map[string]struct {
		body     io.ReadCloser
		length   int64
		again    func() io.ReadCloser
		attempts int
	}{
		"a read fails":                       {fails(), 6, nil, 1},
		"a read fails, with another body":    {fails(), 6, good, 2},
		"a body that is too short":           {io.NopCloser(strings.NewReader("abc")), 6, good, 1},
		"a stream that is too short":         {io.NopCloser(io.MultiReader(strings.NewReader("abc"))), 6, good, 1},
		"a body that is too long":            {io.NopCloser(strings.NewReader("abcdefg")), 6, good, 1},
		"a stream that is too long":          {io.NopCloser(io.MultiReader(strings.NewReader("abcdefg"))), 6, good, 1},
		"as long as its length, then broken": {io.NopCloser(io.MultiReader(strings.NewReader("abcdef"), iotest.ErrReader(errRead))), 6, nil, 1},
	} {
		attempts := 0
		rt := quick(retry.Config{MaxBuffer: 100}).Transport(roundTrip(func(req *http.Request) (*http.Response, error) {
			attempts++
			return discardOverWire(req)
		}))
		req := request(t.Context(), http.MethodPut, c.body)
		req.ContentLength = c.length
		if c.again != nil {
			req.GetBody = func() (io.ReadCloser, error) { return c.again(), nil }
		}
		_, err := rt.RoundTrip(req)
		require.Equal(t, c.attempts, attempts, "%s: %v", name, err)
		require.NotContains(t, fmt.Sprint(err), "was not repeated", name)
	}
}

// discardOverWire sends a request with a transport of its own to a server that reads it.
func discardOverWire(req *http.Request) (*http.Response, error) {
	tr := &http.Transport{DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go func() {
			defer func() { _ = server.Close() }()
			got, err := http.ReadRequest(bufio.NewReader(server))
			if err == nil {
				if _, err = io.Copy(io.Discard, got.Body); err == nil {
					_, _ = io.WriteString(server, "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
				}
			}
		}()
		return client, nil
	}}
	return tr.RoundTrip(req)
}

func TestAConnectThatAProxyRefusesIsNotSent(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusForbidden, http.StatusProxyAuthRequired, http.StatusBadGateway, http.StatusServiceUnavailable} {
		var asked atomic.Int32
		proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			asked.Add(1)
			w.WriteHeader(status)
		}))
		t.Cleanup(proxy.Close)
		tr := &http.Transport{Proxy: http.ProxyURL(core.Must(url.Parse(proxy.URL)))}
		t.Cleanup(tr.CloseIdleConnections)
		post := core.Must(http.NewRequestWithContext(t.Context(), http.MethodPost, "https://api.example.com/orders", strings.NewReader("x")))
		_, err := quick(retry.Config{}).Transport(tr).RoundTrip(post)
		require.Error(t, err)
		require.True(t, client.NotSent(err), "%d: %v", status, err)
		require.NotErrorIs(t, err, retry.ErrMaybeProcessed)
		require.EqualValues(t, 3, asked.Load(), "a POST that was not sent may be repeated")
		require.False(t, client.NotSent(fmt.Errorf("upstream: %w", err)), "a transport may say so of what it sent")
	}
}

func TestAClosedMechanismIsNotRetried(t *testing.T) {
	t.Parallel()
	queued := corelimit.PerMinute(1)
	for name, limits := range map[string]ratelimit.ClientConfig{
		"limiter":           {},
		"limiter of x/time": {Limiter: rate.NewLimiter(rate.Inf, 1)},
		"waiting":           {Limit: queued, MaxWait: -1},
	} {
		for which, cfg := range map[string]retry.Config{"zero": {}, "rejections too": {RetryRejected: true}, "any": {RetryIf: func(error) bool { return true }}} {
			synctest.Test(t, func(t *testing.T) {
				limit := core.Must(ratelimit.NewClient(limits))
				group := core.Must(breaker.NewGroup(breaker.Config{}))
				breakers := breaker.NewClient(group, breaker.ClientOptions{})
				retries := core.Must(retry.New(cfg))
				sent := 0
				rt := client.New(roundTrip(func(req *http.Request) (*http.Response, error) {
					sent++
					client.CloseBody(req)
					return &http.Response{StatusCode: http.StatusNoContent, Body: http.NoBody, Request: req}, nil
				}), retries, limit, client.InPhase(breakers, client.Admission-1))
				if name == "waiting" {
					_, err := rt.RoundTrip(request(t.Context(), http.MethodPost, nil))
					require.NoError(t, err)
					sent = 0
					time.AfterFunc(time.Second, func() { _ = limit.Close() })
				} else {
					require.NoError(t, limit.Close())
				}
				start := time.Now()
				_, err := rt.RoundTrip(request(t.Context(), http.MethodPost, strings.NewReader("x")))
				require.Error(t, err)
				require.ErrorIs(t, err, core.ErrClosed)
				require.NotErrorIs(t, err, retry.ErrMaybeProcessed, "%s: %s", name, which)
				require.NotContains(t, err.Error(), "was not repeated")
				require.True(t, client.NotSent(err))
				require.LessOrEqual(t, time.Since(start), time.Second, "no backoff")
				require.Zero(t, sent)
				require.Zero(t, retries.Stats().Retries)
				require.Zero(t, group.Stats().Failures, "an outer breaker does not count it")
			})
		}
	}
}

func TestARequestThatNeverLeftSinceTheStoreFailedSaysSo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := core.Must(corelimit.NewMemory(0))
		limit := core.Must(ratelimit.NewClient(ratelimit.ClientConfig{Store: store, OnStoreError: corelimit.Deny}))
		require.NoError(t, store.Close())
		rt := client.New(roundTrip(func(*http.Request) (*http.Response, error) { panic("nothing is sent") }), core.Must(retry.New(retry.Config{})), limit)
		_, err := rt.RoundTrip(request(t.Context(), http.MethodPost, strings.NewReader("x")))
		require.ErrorIs(t, err, corelimit.ErrStore)
		require.NotErrorIs(t, err, retry.ErrMaybeProcessed)
		require.True(t, client.NotSent(err))
	})
}

func TestACanceledRequestIsNotRetried(t *testing.T) {
	t.Parallel()
	for which, cfg := range map[string]retry.Config{
		"zero":      {},
		"any":       {RetryIf: func(error) bool { return true }},
		"own check": {CheckRetry: func(context.Context, *http.Response, error) (bool, error) { return true, nil }},
	} {
		synctest.Test(t, func(t *testing.T) {
			attempts := 0
			rt := quick(cfg).Transport(roundTrip(func(req *http.Request) (*http.Response, error) {
				attempts++
				<-req.Cancel //nolint:staticcheck // it is what is tested
				return nil, errors.New("net/http: request canceled")
			}))
			cancel := make(chan struct{})
			req := get(t)
			req.Cancel = cancel //nolint:staticcheck // likewise
			time.AfterFunc(time.Second, func() { close(cancel) })
			_, err := rt.RoundTrip(req)
			require.Error(t, err)
			require.Equal(t, 1, attempts, which)
		})
	}
}
