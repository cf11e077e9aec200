package breaker_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	neturl "net/url"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/internal/resiltest"
	"github.com/gresil/gresil/plugins/breaker"
	"github.com/gresil/gresil/plugins/timeout"
	"github.com/gresil/gresil/server"
)

// trickle is a body of n bytes, each of which takes a while.
type trickle struct {
	n     int
	pause time.Duration
}

func (r *trickle) Read(p []byte) (int, error) {
	time.Sleep(r.pause)
	if r.n--; r.n < 0 {
		return 0, io.EOF
	}
	p[0] = 'x'
	return 1, nil
}

// arriving is a request as a server gets it.
func arriving(ctx context.Context, t *testing.T, body io.Reader) *http.Request {
	t.Helper()
	req := request(ctx, t, url, body)
	if body != nil {
		req.ContentLength = -1
	}
	return req
}

func TestServerOutcomes(t *testing.T) {
	t.Parallel()
	success, failure, ignored := [3]uint64{1, 0, 0}, [3]uint64{0, 1, 0}, [3]uint64{0, 0, 1}
	status := func(n int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(n) }
	}
	reads := func(n int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body); w.WriteHeader(n) }
	}
	hangs := func(w http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	limited := func(next http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithTimeout(r.Context(), time.Second)
			defer cancel()
			next(w, r.WithContext(ctx))
		}
	}
	proxy := func(rt roundTrip) http.HandlerFunc {
		p := httputil.NewSingleHostReverseProxy(core.Must(neturl.Parse("http://origin.test")))
		p.Transport, p.ErrorHandler = rt, func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }
		return p.ServeHTTP
	}
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		body    io.Reader
		cancel  time.Duration // when the client leaves
		want    [3]uint64
	}{
		"200":                        {status(200), nil, 0, success},
		"nothing was sent":           {func(http.ResponseWriter, *http.Request) {}, nil, 0, success},
		"404":                        {status(404), nil, 0, success},
		"500":                        {status(500), nil, 0, failure},
		"501":                        {status(501), nil, 0, success},
		"503":                        {status(503), nil, 0, failure},
		"a rejection further in":     {func(w http.ResponseWriter, r *http.Request) { server.Reject(w, r, server.Rejection{}) }, nil, 0, ignored},
		"the client leaves":          {hangs, nil, time.Second, ignored},
		"it leaves after the answer": {func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusOK); <-r.Context().Done() }, nil, time.Second, success},
		"its answer is a failure": {func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			<-r.Context().Done()
		}, nil, time.Second, failure},
		"a deadline of its own": {limited(hangs), nil, 0, failure},
		"a body that fails":     {reads(500), iotest.ErrReader(errors.New("reset")), 0, ignored},
		"and the handler copes": {reads(200), iotest.ErrReader(errors.New("reset")), 0, success},
		"a body that was read":  {reads(500), strings.NewReader("x"), 0, failure},
		"one that was not":      {status(500), iotest.ErrReader(errors.New("reset")), 0, failure},
		"a proxy, the body fails": {proxy(func(r *http.Request) (*http.Response, error) {
			defer func() { _ = r.Body.Close() }()
			_, err := io.Copy(io.Discard, r.Body)
			return respond(r, 200), err
		}), iotest.ErrReader(errors.New("reset")), 0, ignored},
		"a proxy, the origin is down": {proxy(func(r *http.Request) (*http.Response, error) {
			_ = r.Body.Close()
			_, _ = r.Body.Read(make([]byte, 1))
			return nil, errDown
		}), strings.NewReader("x"), 0, failure},
		"a proxy, a limit during an upload": {proxy(func(r *http.Request) (*http.Response, error) {
			go func() { _, _ = io.Copy(io.Discard, r.Body) }()
			time.Sleep(time.Second)
			_ = r.Body.Close()
			return nil, context.DeadlineExceeded
		}), &trickle{100, 70 * time.Millisecond}, 0, ignored},
		"a proxy, a limit after one": {proxy(func(r *http.Request) (*http.Response, error) {
			_, _ = io.Copy(io.Discard, r.Body)
			time.Sleep(time.Second)
			_ = r.Body.Close()
			return nil, context.DeadlineExceeded
		}), &trickle{10, 70 * time.Millisecond}, 0, failure},
	} {
		synctest.Test(t, func(t *testing.T) {
			group := newGroup(t, breaker.Config{})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if c.cancel > 0 {
				time.AfterFunc(c.cancel, cancel)
			}
			breaker.NewServer(group, breaker.ServerOptions{}).Handler(c.handler).ServeHTTP(httptest.NewRecorder(), arriving(ctx, t, c.body))
			require.Equal(t, c.want, counts(group.Stats()), name)
			time.Sleep(time.Minute) // a transport reads on
		})
	}
}

// A limit around the breaker is a failure of a handler that does not answer, but not while it waits for a slow upload.
func TestServerUnderALimit(t *testing.T) {
	t.Parallel()
	reads := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		body    io.Reader
		want    [3]uint64
	}{
		"it hangs":            {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, nil, [3]uint64{0, 1, 0}},
		"after an upload":     {func(w http.ResponseWriter, r *http.Request) { reads(w, r); <-r.Context().Done() }, strings.NewReader("x"), [3]uint64{0, 1, 0}},
		"during a slow one":   {reads, &trickle{100, 70 * time.Millisecond}, [3]uint64{0, 0, 1}},
		"before it is read":   {func(w http.ResponseWriter, r *http.Request) { time.Sleep(time.Minute); reads(w, r) }, &trickle{10, 0}, [3]uint64{0, 1, 0}},
		"it answers in time":  {func(http.ResponseWriter, *http.Request) {}, nil, [3]uint64{1, 0, 0}},
		"the client has left": {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, iotest.ErrReader(context.Canceled), [3]uint64{0, 0, 1}},
	} {
		synctest.Test(t, func(t *testing.T) {
			group := newGroup(t, breaker.Config{})
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if name == "the client has left" {
				cancel()
			}
			breaker.NewServer(group, breaker.ServerOptions{}).Handler(c.handler).ServeHTTP(httptest.NewRecorder(), arriving(ctx, t, c.body))
			require.Equal(t, c.want, counts(group.Stats()), name)
		})
	}
}

// A rejection reads what has arrived of the body, which ends the context of a request whose body has not. The client has not left.
func TestServerRejectionBeforeUpload(t *testing.T) {
	t.Parallel()
	broken := func(w http.ResponseWriter, r *http.Request, _ server.Rejection) {
		server.Reject(w, r, server.Rejection{Err: errors.New("database")})
	}
	limited := func(opts timeout.ServerOptions) http.Handler {
		limit := core.Must(timeout.New(timeout.Config{Limit: time.Second}))
		return timeout.NewServer(limit, opts).Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	}
	for name, h := range map[string]http.Handler{
		"rejects":    http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { broken(w, r, server.Rejection{}) }),
		"hangs":      limited(timeout.ServerOptions{}),
		"is cut off": limited(timeout.ServerOptions{Cut: true}),
		"hook":       limited(timeout.ServerOptions{OnRejected: broken}),
		"own hook": limited(timeout.ServerOptions{OnRejected: func(w http.ResponseWriter, _ *http.Request, _ server.Rejection) {
			w.WriteHeader(http.StatusBadGateway)
		}}),
	} {
		synctest.Test(t, func(t *testing.T) {
			group, network := newGroup(t, breaker.Config{}), resiltest.NewNetwork()
			srv := &http.Server{Handler: breaker.NewServer(group, breaker.ServerOptions{}).Handler(h)}
			defer func() { _ = srv.Close() }()
			go func() { _ = srv.Serve(network) }()
			conn := core.Must(network.DialContext(t.Context(), "tcp", "api.test:80"))
			defer func() { _ = conn.Close() }()
			_ = core.Must(io.WriteString(conn, "POST / HTTP/1.1\r\nHost: api.test\r\nContent-Length: 5\r\n\r\n123"))
			require.GreaterOrEqual(t, core.Must(http.ReadResponse(bufio.NewReader(conn), nil)).StatusCode, 500, name)
			require.Equal(t, [3]uint64{0, 1, 0}, counts(group.Stats()), name)
		})
	}
}

func TestServerOpensAndCloses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		group := newGroup(t, breaker.Config{OpenDelay: backoff.Constant{Delay: 1500 * time.Millisecond}})
		status, told := 500, 0
		s := breaker.NewServer(group, breaker.ServerOptions{OnRejected: func(w http.ResponseWriter, r *http.Request, rej server.Rejection) {
			require.ErrorIs(t, rej.Err, breaker.ErrOpen)
			require.Equal(t, "2", w.Header().Get("Retry-After"))
			told++
			server.Reject(w, r, rej)
		}})
		h := s.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		get := func(h http.Handler, ctx context.Context) int {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, request(ctx, t, url, nil))
			return w.Code
		}
		for range 5 {
			require.Equal(t, 500, get(h, t.Context()))
		}
		require.Equal(t, []int{503, 1}, []int{get(h, t.Context()), told})
		require.Equal(t, 500, get(h, s.Override(t.Context(), func(o *breaker.ServerOptions) { o.Disabled = true })))
		outer := newGroup(t, breaker.Config{})
		require.Equal(t, 503, get(breaker.NewServer(outer, breaker.ServerOptions{}).Handler(h), t.Context()))
		require.Equal(t, [3]uint64{0, 0, 1}, counts(outer.Stats()))
		time.Sleep(2 * time.Second)
		status = 200
		for range 5 {
			require.Equal(t, 200, get(h, t.Context()))
		}
		require.Equal(t, breaker.Closed, group.Stats().State)
		require.Equal(t, []any{"breaker.Server(default)", server.Admission + 10}, []any{s.String(), s.Phase()})
	})
}

func TestServerOptions(t *testing.T) {
	t.Parallel()
	group := newGroup(t, breaker.Config{Failures: 1})
	s := breaker.NewServer(group, breaker.ServerOptions{
		Key:      server.Header("X-Tenant"),
		Classify: func(_ *http.Request, status int) core.Outcome { return core.Outcome(status % 10) },
	})
	h := s.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(400 + int(core.Failure)) }))
	get := func(tenant string) int {
		req, w := request(t.Context(), t, url, nil), httptest.NewRecorder()
		req.Header.Set("X-Tenant", tenant)
		h.ServeHTTP(w, req)
		return w.Code
	}
	require.Equal(t, []int{402, 503, 402, 402, 402}, []int{get("a"), get("a"), get("b"), get(""), get("")})
	require.Equal(t, 2, group.Stats().Keys, "a request without a key passes")
	ctx := s.Override(t.Context(), func(o *breaker.ServerOptions) { *o = breaker.ServerOptions{} })
	h.ServeHTTP(httptest.NewRecorder(), request(ctx, t, url, nil))
	require.Equal(t, [3]uint64{1, 2, 0}, counts(group.Stats()), "by default a 402 is a success")
}

func TestHandlerPanics(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		want    [3]uint64
	}{
		"mine":                    {func(http.ResponseWriter, *http.Request) { panic("mine") }, [3]uint64{0, 1, 0}},
		"net/http: abort Handler": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, [3]uint64{0, 0, 1}},
		"after the header":        {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK); panic("after the header") }, [3]uint64{1, 0, 0}},
	} {
		group := newGroup(t, breaker.Config{Trials: 1, Initial: breaker.HalfOpen})
		require.Panics(t, func() {
			breaker.NewServer(group, breaker.ServerOptions{}).Handler(c.handler).ServeHTTP(httptest.NewRecorder(), request(t.Context(), t, url, nil))
		}, name)
		require.Equal(t, c.want, counts(group.Stats()), name)
	}
}

// With one trial, an inner handler that counts too would be rejected for ever.
func TestServerAroundItself(t *testing.T) {
	t.Parallel()
	half := breaker.Config{Trials: 1, Initial: breaker.HalfOpen}
	for name, c := range map[string]struct {
		inner breaker.ServerOptions
		cuts  int    // between them
		want  uint64 // counted
	}{
		"one breaker":              {breaker.ServerOptions{}, 0, 1},
		"one breaker, behind cuts": {breaker.ServerOptions{}, 2, 1},
		"another breaker":          {breaker.ServerOptions{Key: server.Pattern}, 0, 2},
	} {
		group := newGroup(t, half)
		handler := breaker.NewServer(group, c.inner).Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		for range c.cuts {
			handler = timeout.NewServer(nil, timeout.ServerOptions{Cut: true}).Handler(handler)
		}
		mux := http.NewServeMux()
		mux.Handle("/a", handler)
		outer := breaker.NewServer(group, breaker.ServerOptions{}).Handler(mux)
		outer.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/a", http.NoBody))
		require.Equal(t, [3]uint64{c.want, 0, 0}, counts(group.Stats()), name)
		require.Equal(t, breaker.Closed, group.Stats().State, name)
	}
}

// The handler of a stream may return hours later, and must not be a trial as long.
func TestStreamIsJudgedAtItsHeader(t *testing.T) {
	t.Parallel()
	group := newGroup(t, breaker.Config{Trials: 1, Initial: breaker.HalfOpen})
	breaker.NewServer(group, breaker.ServerOptions{}).Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "x")
		require.Equal(t, breaker.Closed, group.Stats().State)
	})).ServeHTTP(httptest.NewRecorder(), request(t.Context(), t, url, nil))
	require.Equal(t, [3]uint64{1, 0, 0}, counts(group.Stats()))
}
