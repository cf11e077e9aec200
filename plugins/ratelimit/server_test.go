package ratelimit_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/plugins/ratelimit"
	"github.com/gresil/gresil/server"
)

// served is a limited handler that counts what reaches it.
type served struct {
	http.Handler
	plugin *ratelimit.Server
	limits *ratelimit.Limiter
	calls  atomic.Int64
}

func serve(tb testing.TB, cfg ratelimit.Config, opts ratelimit.ServerOptions) *served {
	tb.Helper()
	s := &served{limits: core.Must(ratelimit.New(cfg))}
	tb.Cleanup(func() { require.NoError(tb, s.limits.Close()) })
	var err error
	s.plugin, err = ratelimit.NewServer(s.limits, opts)
	require.NoError(tb, err)
	s.Handler = s.plugin.Handler(s.handler())
	return s
}

// handler is what is limited.
func (s *served) handler() http.Handler {
	return http.HandlerFunc(func(http.ResponseWriter, *http.Request) { s.calls.Add(1) })
}

// left returns the permits that a key has under Config.Limit, or under another limit.
func (s *served) left(tb testing.TB, key string, under ...string) int64 {
	tb.Helper()
	result, err := s.limits.Under(strings.Join(under, "")).Peek(tb.Context(), key)
	require.NoError(tb, err)
	return result.Remaining
}

func request(method, target string, header ...string) *http.Request {
	r := httptest.NewRequest(method, target, http.NoBody)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return r
}

func do(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func fetch(h http.Handler, target string, header ...string) *httptest.ResponseRecorder {
	return do(h, request(http.MethodGet, target, header...))
}

func from(h http.Handler, addr string, header ...string) int {
	r := request(http.MethodGet, "/", header...)
	r.RemoteAddr = addr
	return do(h, r).Code
}

// cost is a Weight that the request says itself.
func cost(r *http.Request) (int64, error) {
	var n int64
	for _, c := range r.Header.Get("Cost") {
		if c == '-' {
			return -1, nil
		}
		n = n*10 + int64(c-'0')
	}
	return n, nil
}

func path(prefix string) func(*http.Request) bool {
	return func(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, prefix) }
}

const ip = "192.0.2.1" // of httptest

// brokenStore opens, and then fails.
type brokenStore struct{}

var errDown = errors.New("dial tcp 10.0.0.5:6379: refused")

func (brokenStore) Open(string) (limits.Table, error) {
	return brokenTable{limits.NewPlans(limits.Clock{}, nil)}, nil
}
func (brokenStore) Close() error { return nil }

type brokenTable struct{ *limits.Plans }

func (brokenTable) Apply(context.Context, string, *limits.Plan, limits.Op) (limits.Result, error) {
	return limits.Result{}, errDown
}

func TestServer_Zero(t *testing.T) {
	t.Parallel()
	plugin := core.Must(ratelimit.NewServer(nil, ratelimit.ServerOptions{}))
	require.Equal(t, server.Admission, plugin.Phase())
	require.Equal(t, "ratelimit.Server(default)", plugin.String())
	h := plugin.Handler(http.NotFoundHandler())
	for range 1000 {
		require.Equal(t, 404, from(h, "192.0.2.1:1"))
	}
	require.Equal(t, 429, from(h, "192.0.2.1:2"))
	require.Equal(t, 429, from(h, "192.0.2.1:2", "X-Forwarded-For", "1.2.3.4", "User-Agent", "b"), "forged")
	require.Equal(t, 404, from(h, "192.0.2.2:1"))
}

func TestPerIP(t *testing.T) {
	t.Parallel()
	handled := http.NotFoundHandler()
	one := ratelimit.PerIP(ratelimit.PerMinute(1))(handled)
	for _, tt := range []struct {
		addr string
		want int
	}{
		{"[2001:db8:1234:5678::1]:1", 404},
		{"[2001:db8:1234:5678:ffff::]:1", 429}, // one /64
		{"[2001:db8:1234:5679::1]:1", 404},
		{"[::ffff:1.2.3.4]:1", 404},
		{"1.2.3.4:1", 429},
		{"@", 403},
		{"/run/app.sock", 403},
	} {
		require.Equal(t, tt.want, from(one, tt.addr), tt.addr)
	}
	behind := ratelimit.PerIP(ratelimit.PerMinute(1), netip.MustParsePrefix("10.0.0.0/8"))(handled)
	require.Equal(t, 404, from(behind, "10.0.0.1:1", "X-Forwarded-For", "1.1.1.1"))
	require.Equal(t, 404, from(behind, "10.0.0.1:1", "X-Forwarded-For", "2.2.2.2"))
	require.Equal(t, 429, from(behind, "10.0.0.2:1", "X-Forwarded-For", "1.1.1.1"))
	require.Equal(t, 404, from(behind, "11.0.0.1:1", "X-Forwarded-For", "1.1.1.1"), "not a trusted proxy")
	require.Panics(t, func() { ratelimit.PerIP(ratelimit.PerMinute(-1)) })
}

func TestServer_Concurrent(t *testing.T) {
	t.Parallel()
	s := serve(t, ratelimit.Config{Limit: ratelimit.TokenBucket(20, 24*time.Hour, 20)}, ratelimit.ServerOptions{XRateLimit: true, RateLimit: true})
	var codes [600]atomic.Int64
	var all sync.WaitGroup
	for range 200 {
		all.Go(func() { codes[fetch(s, "/").Code].Add(1) })
	}
	all.Wait()
	require.EqualValues(t, 20, codes[200].Load())
	require.EqualValues(t, 180, codes[429].Load())
	require.EqualValues(t, 20, s.calls.Load())
}

// chi's Use and With: the inner limit is additional, and the outer keeps its own.
func TestServer_Named(t *testing.T) {
	t.Parallel()
	s := serve(t, ratelimit.Config{Name: "api", Limit: ratelimit.PerHour(10), Limits: map[string]ratelimit.Limit{"export": ratelimit.PerMinute(2)}},
		ratelimit.ServerOptions{
			RateLimit: true, XRateLimit: true, Tier: func(*http.Request) string { return "export" },
			Routes: []ratelimit.Route{{Pattern: "/two", Limit: "export"}},
		})
	named := s.plugin.Named("export")
	require.Equal(t, "ratelimit.Server(api)", named.String())
	r := chi.NewRouter()
	r.With(named.Handler).Method(http.MethodGet, "/one", s.handler())
	r.Group(func(r chi.Router) {
		r.Use(s.plugin.Handler)
		r.Method(http.MethodGet, "/two", s.handler())
	})
	require.Equal(t, 200, fetch(r, "/one").Code)
	require.Equal(t, 200, fetch(r, "/two").Code, "a Route with this Limit takes the same permits")
	require.Equal(t, 429, fetch(r, "/one").Code)
	require.EqualValues(t, 10, s.left(t, ip))
	require.EqualValues(t, 0, s.left(t, "#limit:export:"+ip, "export"))
	require.Panics(t, func() { s.plugin.Named("other") })

	nested := serve(t, ratelimit.Config{Limit: ratelimit.PerHour(10), Limits: map[string]ratelimit.Limit{"export": ratelimit.PerMinute(1)}}, ratelimit.ServerOptions{})
	both := nested.plugin.Handler(nested.plugin.Named("export").Handler(nested.handler()))
	require.Equal(t, 200, fetch(both, "/").Code)
	require.Equal(t, 429, fetch(both, "/").Code)
	require.EqualValues(t, 8, nested.left(t, ip), "of the outer limit both")

	ctx := nested.plugin.Override(t.Context(), func(o *ratelimit.ServerOptions) { o.Disabled = true })
	require.Equal(t, 200, do(both, request(http.MethodGet, "/").WithContext(ctx)).Code, "Named has the options of its Server, also in an Override")
}

func TestServer_Override(t *testing.T) {
	t.Parallel()
	s := serve(t, ratelimit.Config{Limit: ratelimit.PerHour(5)}, ratelimit.ServerOptions{Routes: []ratelimit.Route{{Pattern: "/free", Weight: func(*http.Request) (int64, error) { return 0, nil }}}})
	other := serve(t, ratelimit.Config{Limit: ratelimit.PerHour(5)}, ratelimit.ServerOptions{})
	under := func(ctx context.Context, h http.Handler, target string) int {
		return do(h, request(http.MethodGet, target).WithContext(ctx)).Code
	}
	ann := s.plugin.Override(t.Context(), func(o *ratelimit.ServerOptions) {
		o.Key = func(*http.Request) (string, bool) { return "ann", true }
		o.Weight = func(*http.Request) (int64, error) { return 2, nil }
		o.Routes = nil // they stay
	})
	require.Equal(t, 200, under(ann, s, "/"))
	require.EqualValues(t, 3, s.left(t, "ann"))
	require.Equal(t, 200, under(ann, s, "/free"))
	require.EqualValues(t, 3, s.left(t, "ann"), "the Weight of a Route wins")
	nested := s.plugin.Override(ann, func(o *ratelimit.ServerOptions) { o.Weight = nil })
	require.Equal(t, 200, under(nested, s, "/"))
	require.EqualValues(t, 2, s.left(t, "ann"), "the innermost is applied last, to what the outer ones left")
	require.Equal(t, 200, under(ann, other, "/"))
	require.EqualValues(t, 4, other.left(t, ip), "another plugin is not changed")
	off := s.plugin.Override(nested, func(o *ratelimit.ServerOptions) { o.Disabled = true })
	w := do(s, request(http.MethodGet, "/").WithContext(off))
	require.Equal(t, 200, w.Code)
	require.Empty(t, w.Header())
	require.EqualValues(t, 2, s.left(t, "ann"))
}

func TestServer_Tier(t *testing.T) {
	t.Parallel()
	s := serve(t, ratelimit.Config{
		Limit: ratelimit.PerMinute(2), Limits: map[string]ratelimit.Limit{"gold": ratelimit.PerMinute(4), "one": ratelimit.PerMinute(1)},
	}, ratelimit.ServerOptions{
		Key: server.Header("User"), Tier: func(r *http.Request) string { return r.Header.Get("Plan") }, RateLimit: true,
		Routes: []ratelimit.Route{{Pattern: "/one", Limit: "one"}},
	})
	for _, plan := range []string{"", "unknown"} {
		w := fetch(s, "/", "User", "ann", "Plan", plan)
		require.Equal(t, 200, w.Code)
		require.Equal(t, `"default";q=2;w=60`, w.Header().Get("RateLimit-Policy"))
	}
	require.Equal(t, 429, fetch(s, "/", "User", "ann").Code)
	for range 2 {
		w := fetch(s, "/", "User", "ann", "Plan", "gold")
		require.Equal(t, 200, w.Code, "its usage counts, and there is more")
		require.Equal(t, `"gold";q=4;w=60`, w.Header().Get("RateLimit-Policy"))
	}
	require.Equal(t, 429, fetch(s, "/", "User", "ann", "Plan", "gold").Code)
	require.Equal(t, 200, fetch(s, "/one", "User", "ann", "Plan", "gold").Code)
	require.Equal(t, 429, fetch(s, "/one", "User", "ann", "Plan", "gold").Code, "a route with a limit of its own has no tiers")
}

func TestServer_Wait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, ratelimit.Config{Limit: ratelimit.TokenBucket(1, 10*time.Second, 1), MaxWait: 15 * time.Second}, ratelimit.ServerOptions{Wait: true, Weight: cost})
		start := time.Now()
		require.Equal(t, 200, fetch(s, "/", "Cost", "1").Code)
		require.Zero(t, time.Since(start))
		w := fetch(s, "/", "Cost", "1")
		require.Equal(t, 200, w.Code)
		require.Equal(t, "false", w.Header().Get("X-Rate-Limited"))
		require.Equal(t, 10*time.Second, time.Since(start))
		var second sync.WaitGroup
		second.Go(func() { fetch(s, "/", "Cost", "1") })
		synctest.Wait()
		w = fetch(s, "/", "Cost", "1")
		require.Equal(t, 429, w.Code, "the third would wait 20s")
		require.Equal(t, "20", w.Header().Get("Retry-After"))
		require.Equal(t, 10*time.Second, time.Since(start), "refused at once")
		second.Wait()
		gone, leave := context.WithCancel(t.Context())
		time.AfterFunc(3*time.Second, leave)
		before := s.calls.Load()
		require.Equal(t, 503, do(s, request(http.MethodGet, "/", "Cost", "1").WithContext(gone)).Code)
		require.Equal(t, 23*time.Second, time.Since(start), "the wait ends with the client")
		require.Equal(t, before, s.calls.Load())
		require.Equal(t, 413, fetch(s, "/", "Cost", "2").Code)
	})
}

func TestServer_RealServer(t *testing.T) {
	t.Parallel()
	s := serve(t, ratelimit.Config{Limit: ratelimit.PerMinute(1)}, ratelimit.ServerOptions{RateLimit: true})
	srv := httptest.NewServer(s.plugin.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, ok := w.(http.Hijacker) // the writer of net/http itself
		if err := http.NewResponseController(w).Flush(); err != nil || !ok {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})))
	t.Cleanup(srv.Close)
	for _, want := range []int{200, 429} {
		resp, err := srv.Client().Get(srv.URL)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, want, resp.StatusCode)
		require.NotEmpty(t, resp.Header.Get("RateLimit"))
	}
}
