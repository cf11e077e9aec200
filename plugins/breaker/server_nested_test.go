package breaker_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/plugins/breaker"
	"github.com/gresil/gresil/plugins/timeout"
	"github.com/gresil/gresil/server"
)

// opaque is a writer without Unwrap.
type opaque struct{ w http.ResponseWriter }

func (o opaque) Header() http.Header         { return o.w.Header() }
func (o opaque) Write(p []byte) (int, error) { return o.w.Write(p) }
func (o opaque) WriteHeader(status int)      { o.w.WriteHeader(status) }

func hide(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(opaque{w}, r) })
}

func TestABreakerAroundItselfCountsOnce(t *testing.T) {
	t.Parallel()
	for name, between := range map[string]func(http.Handler) http.Handler{
		"nothing": func(h http.Handler) http.Handler { return h },
		"chi": func(h http.Handler) http.Handler {
			sub := chi.NewRouter()
			sub.Handle("/*", h)
			r := chi.NewRouter()
			r.Mount("/a", sub)
			return r
		},
		"StripPrefix":             func(h http.Handler) http.Handler { return http.StripPrefix("/a", h) },
		"a writer without Unwrap": hide,
		"TimeoutHandler":          func(h http.Handler) http.Handler { return http.TimeoutHandler(h, time.Minute, "late") },
		"the timeout plugin":      timeout.NewServer(core.Must(timeout.New(timeout.Config{Limit: time.Minute})), timeout.ServerOptions{}).Handler,
	} {
		for keyed, key := range map[string]server.Key{"one": nil, "by host": func(b []byte, r *http.Request) ([]byte, bool) { return append(b, r.Host...), true }} {
			synctest.Test(t, func(t *testing.T) {
				p := newServer(t, breaker.ServerConfig{Window: 4, Trials: 1, Key: key})
				answer := 500
				h := p.Handler(between(p.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(answer) }))))
				for range 4 {
					require.Equal(t, 500, serve(t.Context(), h, "/a/b").Code, "%s, %s", name, keyed)
				}
				require.EqualValues(t, 4, p.Stats().Failures, "%s, %s", name, keyed)
				require.Equal(t, 503, serve(t.Context(), h, "/a/b").Code)
				require.EqualValues(t, 1, p.Stats().Rejected)
				time.Sleep(time.Minute)
				answer = 204
				require.Equal(t, 204, serve(t.Context(), h, "/a/b").Code, "%s, %s: the only trial", name, keyed)
				require.Equal(t, 204, serve(t.Context(), h, "/a/b").Code, "%s, %s: closed", name, keyed)
			})
		}
	}
}

// The breakers of two keys count the request once each.
func TestABreakerAroundItselfCountsForEachKey(t *testing.T) {
	t.Parallel()
	p := newServer(t, breaker.ServerConfig{Key: server.ByRoute()})
	r := chi.NewRouter()
	r.Use(p.Handler)
	r.With(p.Handler).Get("/a/{id}", status(500))
	serve(t.Context(), r, "/a/1")
	require.EqualValues(t, 1, p.For("").Stats().Failures)
	require.EqualValues(t, 1, p.For("/a/{id}").Stats().Failures)
}

// A handler can pass the request to its own router again, with another path.
func TestARedirectInsideOfTheServerIsCountedOnce(t *testing.T) {
	t.Parallel()
	p := newServer(t, breaker.ServerConfig{Initial: breaker.HalfOpen, Trials: 1})
	var h http.Handler
	h = p.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/old" {
			h.ServeHTTP(w, httptest.NewRequestWithContext(r.Context(), http.MethodGet, "/new", http.NoBody))
		}
	}))
	require.Equal(t, 200, serve(t.Context(), h, "/old").Code)
	require.Equal(t, breaker.Closed, p.For("").State())
}

// A handler that serves the items of a batch makes requests of their own.
func TestRequestsOfABatchAreCountedEach(t *testing.T) {
	t.Parallel()
	p := newServer(t, breaker.ServerConfig{})
	item := p.Handler(status(500))
	batch := p.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		for range 5 {
			item.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(r.Context(), http.MethodGet, "/", http.NoBody))
		}
	}))
	serve(t.Context(), batch, "/")
	require.EqualValues(t, 5, p.Stats().Failures)
	require.EqualValues(t, 1, p.Stats().Successes)
}

// Classify gets the request of the handler, on which a mux sets the pattern.
func TestClassifyHasThePatternWithSeveralHandlers(t *testing.T) {
	t.Parallel()
	var patterns []string
	p := newServer(t, breaker.ServerConfig{Classify: func(r *http.Request, _ *server.Recorder) core.Outcome {
		patterns = append(patterns, r.Pattern)
		return core.Success
	}})
	mux := http.NewServeMux()
	mux.Handle("GET /a/{id}", p.Handler(status(204)))
	h := p.Handler(mux)
	r := httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/a/1", http.NoBody)
	h.ServeHTTP(httptest.NewRecorder(), r)
	require.Equal(t, []string{"GET /a/{id}"}, patterns)
	require.Equal(t, "GET /a/{id}", r.Pattern)
}
