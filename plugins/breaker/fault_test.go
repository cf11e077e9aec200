package breaker_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/plugins/breaker"
	"github.com/gresil/gresil/plugins/retry"
	"github.com/gresil/gresil/plugins/timeout"
	"github.com/gresil/gresil/resiltest"
)

var errRead = errors.New("the disk is gone")

// reading is a body whose reads are f.
type reading func(p []byte) (int, error)

func (f reading) Read(p []byte) (int, error) { return f(p) }

// trickle is a body of one byte each pause, without an end.
func trickle(pause time.Duration) io.Reader {
	return reading(func(p []byte) (int, error) {
		time.Sleep(pause)
		return copy(p, "x"), nil
	})
}

// origin serves api.example.com:80 in memory; the connections end with the test.
func origin(t *testing.T, handler http.Handler) *http.Transport {
	t.Helper()
	network := resiltest.NewNetwork()
	both := resiltest.HTTP2()
	both.SetHTTP1(true)
	srv := &http.Server{Handler: handler, Protocols: both} //nolint:gosec // a test
	listener := network.Listen(host + ":80")
	go func() { _ = srv.Serve(listener) }()
	tr := &http.Transport{DialContext: network.DialContext}
	t.Cleanup(func() { tr.CloseIdleConnections(); _ = srv.Close() })
	return tr
}

// versions are transports to an origin.
func versions(t *testing.T, handler http.HandlerFunc) map[string]*http.Transport {
	t.Helper()
	second := origin(t, handler)
	second.Protocols = resiltest.HTTP2()
	return map[string]*http.Transport{"HTTP/1": origin(t, handler), "HTTP/2": second}
}

func discards(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.WriteHeader(http.StatusNoContent)
}

// arrangements are the pipelines that count the exchanges of a breaker.
func arrangements(breakers *breaker.Client, base http.RoundTripper, limit time.Duration) map[string]http.RoundTripper {
	attempt := timeout.NewClient(core.Must(timeout.New(timeout.Config{Limit: limit})), timeout.ClientOptions{PerAttempt: true})
	retries := core.Must(retry.New(retry.Config{}))
	return map[string]http.RoundTripper{
		"breaker, timeout":        client.New(base, breakers, attempt),
		"retry, breaker, timeout": client.New(base, retries, breakers, attempt),
	}
}

func upload(ctx context.Context, body io.Reader, length int64) *http.Request {
	req := core.Must(http.NewRequestWithContext(ctx, http.MethodPut, "http://"+host, body))
	if length != 0 {
		req.ContentLength = length
	}
	return req
}

func TestARequestBodyThatFailsSaysNothingOfTheServer(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]struct {
		of     func() io.Reader
		length int64
	}{
		"a read fails":                  {func() io.Reader { return io.MultiReader(strings.NewReader("abc"), iotest.ErrReader(errRead)) }, 0},
		"a read fails, of known length": {func() io.Reader { return io.MultiReader(strings.NewReader("abc"), iotest.ErrReader(errRead)) }, 100},
		"it ends early":                 {func() io.Reader { return io.LimitReader(strings.NewReader("abc"), 3) }, 100},
		"it ends early, in memory":      {func() io.Reader { return strings.NewReader("abc") }, 100},
		"it goes on":                    {func() io.Reader { return io.LimitReader(strings.NewReader("abcdef"), 6) }, 3},
		"it goes on, in memory":         {func() io.Reader { return strings.NewReader("abcdef") }, 3},
	} {
		synctest.Test(t, func(t *testing.T) {
			for version, base := range versions(t, discards) {
				breakers := newClient(t, breaker.ClientConfig{})
				all := arrangements(breakers, base, time.Minute)
				all["breaker"] = breakers.Transport(base)
				var failed uint64
				for which, rt := range all {
					resp, err := rt.RoundTrip(upload(t.Context(), body.of(), body.length))
					if err == nil {
						_ = resp.Body.Close()
					} else {
						failed++
					}
					require.Zero(t, breakers.Stats().Failures, "%s: %s: %s: %v", version, name, which, err)
				}
				require.EqualValues(t, failed, breakers.Stats().Ignored, "%s: %s", version, name)
				// HTTP/2 lets the server find out that a body is too short, and one that is too long can be found out after the response.
				maybe := strings.HasPrefix(name, "it goes on") || version == "HTTP/2" && strings.HasPrefix(name, "it ends early")
				require.True(t, failed == 3 || maybe, "%s: %s", version, name)
			}
			time.Sleep(time.Hour) // what the servers do last
		})
	}
}

func TestAnUploadThatIsTooSlowByItselfSaysNothingOfTheServer(t *testing.T) {
	t.Parallel()
	for name, pause := range map[string]time.Duration{"trickles": 100 * time.Millisecond, "uneven": 170 * time.Millisecond, "stands still": time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			for version, base := range versions(t, discards) {
				breakers := newClient(t, breaker.ClientConfig{})
				for which, rt := range arrangements(breakers, base, time.Second) {
					_, err := rt.RoundTrip(upload(t.Context(), trickle(pause), 0))
					require.ErrorIs(t, err, timeout.ErrTimeout, which)
				}
				require.EqualValues(t, 2, breakers.Stats().Ignored, "%s: %s", version, name)
				require.Zero(t, breakers.Stats().Failures, "%s: %s", version, name)
				ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, &timeout.Error{Name: "handler", Limit: time.Second})
				defer cancel()
				_, err := breakers.Transport(base).RoundTrip(upload(ctx, trickle(pause), 0))
				require.Error(t, err, name)
				require.EqualValues(t, 3, breakers.Stats().Ignored, "%s: %s", version, name)
			}
			time.Sleep(2 * time.Hour) // the last read ends
		})
	}
}

// A body that is in memory, or was read to its end, excuses nothing.
func TestLimitDuringAnUploadThatNobodyReads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		breakers := newClient(t, breaker.ClientConfig{})
		done := make(chan struct{})
		attempt := timeout.NewClient(core.Must(timeout.New(timeout.Config{Limit: time.Second})), timeout.ClientOptions{PerAttempt: true})
		for version, base := range versions(t, func(http.ResponseWriter, *http.Request) { <-done }) {
			for _, body := range []io.Reader{
				reading(func(p []byte) (int, error) { return len(p), nil }),
				strings.NewReader(strings.Repeat("x", 1<<20)),
				io.MultiReader(strings.NewReader("all of it")),
			} {
				_, err := client.New(base, breakers, attempt).RoundTrip(upload(t.Context(), body, 0))
				require.ErrorIs(t, err, timeout.ErrTimeout, version)
			}
		}
		close(done)
		require.EqualValues(t, 4, breakers.Stats().Failures)
		require.EqualValues(t, 2, breakers.Stats().Ignored, "the body without an end")
		time.Sleep(time.Minute) // what the server does last
	})
}

func TestARequestThatCannotBeSentSaysNothingOfTheServer(t *testing.T) {
	t.Parallel()
	for name, change := range unsendable() {
		for which, plugins := range map[string][]client.Plugin{
			"alone":      nil,
			"with retry": {core.Must(retry.New(retry.Config{}))},
		} {
			dials := 0
			tr := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
				dials++
				return nil, errDown
			}}
			breakers := newClient(t, breaker.ClientConfig{})
			req := core.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+host, http.NoBody))
			change(req)
			_, err := client.New(tr, append(plugins, breakers)...).RoundTrip(req)
			require.Error(t, err)
			require.Zero(t, dials, name)
			stats := breakers.Stats()
			require.Zero(t, stats.Failures, "%s: %s", name, which)
			require.EqualValues(t, 1, stats.Ignored, "%s: %s: sent once", name, which)
		}
	}
}

// unsendable are changes of a request that net/http refuses then.
func unsendable() map[string]func(*http.Request) {
	return map[string]func(*http.Request){
		"newline in a value":       func(r *http.Request) { r.Header.Set("X-A", "a\nb") },
		"name of a header":         func(r *http.Request) { r.Header["X A"] = []string{"a"} },
		"empty name of a header":   func(r *http.Request) { r.Header[""] = []string{"a"} },
		"no header":                func(r *http.Request) { r.Header = nil },
		"method":                   func(r *http.Request) { r.Method = "GET IT" },
		"name of a trailer":        func(r *http.Request) { r.Trailer = http.Header{"X A": nil} },
		"newline in a trailer":     func(r *http.Request) { r.Trailer = http.Header{"X-A": {"a\r\n"}} },
		"no URL":                   func(r *http.Request) { r.URL = nil },
		"no host":                  func(r *http.Request) { r.URL = &url.URL{Scheme: "http", Path: "/"} },
		"scheme that is not known": func(r *http.Request) { r.URL.Scheme = "gopher" },
	}
}

func TestAReverseProxysOriginIsNotBlamedForItsClients(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]func() io.Reader{
		"oversize":                    func() io.Reader { return strings.NewReader(strings.Repeat("x", 1<<10)) },
		"oversize, of unknown length": func() io.Reader { return io.MultiReader(strings.NewReader(strings.Repeat("x", 1<<10))) },
		"trickling":                   func() io.Reader { return io.LimitReader(trickle(70*time.Millisecond), 40) },
	} {
		synctest.Test(t, func(t *testing.T) {
			breakers := newClient(t, breaker.ClientConfig{Window: 4})
			attempt := timeout.NewClient(core.Must(timeout.New(timeout.Config{Limit: time.Second})), timeout.ClientOptions{PerAttempt: true})
			proxy := httputil.NewSingleHostReverseProxy(core.Must(url.Parse("http://" + host)))
			proxy.Transport = client.New(origin(t, http.HandlerFunc(discards)), breakers, attempt)
			proxy.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }
			front := origin(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				r.Body = http.MaxBytesReader(w, r.Body, 100)
				proxy.ServeHTTP(w, r)
			}))
			for range 8 {
				resp, err := front.RoundTrip(upload(t.Context(), body(), 0))
				if err == nil {
					require.Equal(t, http.StatusBadGateway, resp.StatusCode)
					_ = resp.Body.Close()
				}
			}
			require.Equal(t, breaker.Closed, breakers.Group().Get(host+":80").State(), name)
			require.EqualValues(t, 8, breakers.Stats().Ignored, name)
			resp, err := front.RoundTrip(upload(t.Context(), strings.NewReader("small"), 0))
			require.NoError(t, err)
			require.Equal(t, http.StatusNoContent, resp.StatusCode)
			time.Sleep(time.Minute) // what the server does last
		})
	}
}

func TestARequestThatItsCancelChannelEndsSaysNothingOfTheServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		breakers := newClient(t, breaker.ClientConfig{})
		for _, rt := range arrangements(breakers, origin(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })), time.Minute) {
			cancel := make(chan struct{})
			req := upload(t.Context(), nil, 0)
			req.Cancel = cancel //nolint:staticcheck // it is what is tested
			time.AfterFunc(time.Second, func() { close(cancel) })
			_, err := rt.RoundTrip(req)
			require.Error(t, err)
		}
		require.EqualValues(t, 2, breakers.Stats().Ignored)
		require.Zero(t, breakers.Stats().Failures)
	})
}

// hangs is a transport that ends with the request's context.
func hangs(req *http.Request) (*http.Response, error) {
	<-req.Context().Done()
	return nil, context.Cause(req.Context())
}

type slow struct{}

func (slow) Error() string { return "too slow" }
func (slow) Timeout() bool { return true }

func TestAnOuterLimitCountsAgainstTheServerThatHadHalfOfItsTime(t *testing.T) {
	t.Parallel()
	const outer, own = 10 * time.Second, 4 * time.Second
	limits := map[string]func(http.RoundTripper) http.RoundTripper{
		"total": func(rt http.RoundTripper) http.RoundTripper {
			return timeout.NewClient(core.Must(timeout.New(timeout.Config{Limit: outer})), timeout.ClientOptions{}).Transport(rt)
		},
		"handler": func(rt http.RoundTripper) http.RoundTripper {
			return roundTrip(func(req *http.Request) (resp *http.Response, err error) {
				limit := timeout.NewServer(core.Must(timeout.New(timeout.Config{Limit: outer})), timeout.ServerOptions{})
				limit.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					resp, err = rt.RoundTrip(req.WithContext(r.Context()))
				})).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
				synctest.Wait() // the handler may end after its answer
				return resp, err
			})
		},
		"caller's own, which says its limit": func(rt http.RoundTripper) http.RoundTripper {
			return within(rt, outer, &timeout.Error{Name: "job", Limit: outer})
		},
		"caller's own": func(rt http.RoundTripper) http.RoundTripper { return within(rt, outer, slow{}) },
	}
	for name, limit := range limits {
		for which, c := range map[string]struct {
			attempt time.Duration // 0: there is none
			left    time.Duration
			want    core.Outcome
		}{
			"half of its own":           {own, own / 2, core.Failure},
			"more than half of its own": {own, own - 1, core.Failure},
			"half of the outer":         {0, outer / 2, core.Failure},
			"all of the outer":          {0, outer, core.Failure},
		} {
			if name == "caller's own" && c.attempt == 0 {
				c.want = core.Failure // it is not known how long it was
			}
			synctest.Test(t, func(t *testing.T) {
				breakers := newClient(t, breaker.ClientConfig{})
				plugins := []client.Plugin{breakers}
				if c.attempt != 0 {
					plugins = append(plugins, timeout.NewClient(core.Must(timeout.New(timeout.Config{Limit: c.attempt})), timeout.ClientOptions{PerAttempt: true}))
				}
				inner := client.New(roundTrip(hangs), plugins...)
				rt := limit(roundTrip(func(req *http.Request) (*http.Response, error) {
					time.Sleep(outer - c.left) // other work
					return inner.RoundTrip(req)
				}))
				_, err := get(t.Context(), rt, "https://"+host)
				require.Error(t, err)
				require.Equal(t, c.want == core.Failure, breakers.Stats().Failures == 1, "%s: %s: %v", name, which, err)
				require.Equal(t, c.want == core.Ignored, breakers.Stats().Ignored == 1, "%s: %s: %v", name, which, err)
			})
		}
	}
}

// within gives requests a limit with a cause.
func within(rt http.RoundTripper, limit time.Duration, cause error) http.RoundTripper {
	return roundTrip(func(req *http.Request) (*http.Response, error) {
		ctx, cancel := context.WithTimeoutCause(req.Context(), limit, cause)
		defer cancel()
		return rt.RoundTrip(req.WithContext(ctx))
	})
}

func TestForFindsTheBreakerThatRequestsUse(t *testing.T) {
	t.Parallel()
	p := newClient(t, breaker.ClientConfig{})
	require.Nil(t, p.For("a.test"))
	require.Zero(t, p.Stats().Keys, "looking one up does not create it")
	rt := p.Transport(answers(200, ""))
	for _, url := range []string{"http://a.test", "http://b.test:8080", "https://c.test", "https://d.test:8443"} {
		_, err := get(t.Context(), rt, url)
		require.NoError(t, err)
	}
	_, err := get(t.Context(), rt, "http://[::1]/")
	require.NoError(t, err)
	for as, want := range map[string]string{
		"a.test": "a.test:80", "A.Test": "a.test:80", "a.test:80": "a.test:80", "a.test:": "a.test:80",
		"b.test:8080": "b.test:8080", "c.test": "c.test", "c.test:443": "c.test", "C.TEST": "c.test", "d.test:8443": "d.test:8443",
		"[::1]": "[::1]:80",
	} {
		require.NotNil(t, p.For(as), as)
		require.Same(t, p.Group().Get(want), p.For(as), as)
	}
	for _, none := range []string{"b.test", "d.test", "a.test:443", "c.test:80", ""} {
		require.Nil(t, p.For(none), none)
	}
	require.Equal(t, 5, p.Stats().Keys)
	byTenant := newClient(t, breaker.ClientConfig{Key: func(*http.Request) string { return "Tenant:" }})
	_, err = get(t.Context(), byTenant.Transport(answers(200, "")), "http://a.test")
	require.NoError(t, err)
	require.NotNil(t, byTenant.For("Tenant:"), "keys of the user's are as they are")
	require.Nil(t, byTenant.For("tenant:"))
	byHost := newClient(t, breaker.ClientConfig{Key: client.Host})
	_, err = get(t.Context(), byHost.Transport(answers(200, "")), "http://a.test")
	require.NoError(t, err)
	require.NotNil(t, byHost.For("a.test:80"))
	require.Nil(t, byHost.For("a.test"), "also if they look like hosts")
}
