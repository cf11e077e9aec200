package ratelimit_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	plugin "github.com/gresil/gresil/plugins/ratelimit"
	"github.com/gresil/gresil/plugins/timeout"
)

// opaque is a writer without Unwrap.
type opaque struct{ w http.ResponseWriter }

func (o opaque) Header() http.Header         { return o.w.Header() }
func (o opaque) Write(p []byte) (int, error) { return o.w.Write(p) }
func (o opaque) WriteHeader(status int)      { o.w.WriteHeader(status) }

func TestAServerAroundItselfChargesOnce(t *testing.T) {
	t.Parallel()
	limited := timeout.NewServer(core.Must(timeout.New(timeout.Config{Limit: time.Minute})), timeout.ServerOptions{})
	for name, between := range map[string]func(http.Handler) http.Handler{
		"nothing": func(h http.Handler) http.Handler { return h },
		"chi": func(h http.Handler) http.Handler {
			sub := chi.NewRouter()
			sub.Handle("/*", h)
			r := chi.NewRouter()
			r.Mount("/a", sub)
			return r
		},
		"StripPrefix": func(h http.Handler) http.Handler { return http.StripPrefix("/a", h) },
		"a request that is cloned": func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(w, r.Clone(r.Context())) })
		},
		"a writer without Unwrap": func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(opaque{w}, r) })
		},
		"TimeoutHandler":                  func(h http.Handler) http.Handler { return http.TimeoutHandler(h, time.Minute, "late") },
		"the timeout plugin":              limited.Handler,
		"the timeout plugin, StripPrefix": func(h http.Handler) http.Handler { return limited.Handler(http.StripPrefix("/a", h)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			outer := core.Must(plugin.NewServer(plugin.ServerConfig{
				Limit: plugin.PerHour(10), Headers: plugin.HeaderDraft10,
				Weight: func(*http.Request) (int64, error) { return 3, nil },
				Layers: []plugin.Layer{{Name: "all", Limit: plugin.PerHour(9)}},
			}))
			derived := core.Must(outer.With(func(c *plugin.ServerConfig) { c.Name, c.Limit = "derived", plugin.PerHour(5) }))
			var left []int64
			h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, ok := outer.ChargeOf(w)
				require.Equal(t, name != "TimeoutHandler" && name != "a writer without Unwrap", ok)
				left = append(left, core.Must(outer.Limiter().Peek(r.Context(), "192.0.2.1")).Remaining)
			})
			handler := outer.Handler(derived.Handler(between(derived.Handler(outer.Handler(h)))))
			w := fetch(handler, "/a/b")
			require.Equal(t, 200, w.Code)
			require.Len(t, w.Header()["Ratelimit"], 2, "a line of each server")
			w = fetch(handler, "/a/b")
			require.Equal(t, 429, w.Code, "derived has 2 left")
			require.Equal(t, []int64{7}, left)
			require.Equal(t, plugin.ServerStats{Allowed: 2}, outer.Stats())
			require.Equal(t, plugin.ServerStats{Allowed: 1, Rejected: 1}, derived.Stats())
			require.EqualValues(t, 7, core.Must(outer.Limiter().Peek(t.Context(), "192.0.2.1")).Remaining, "what was refused is given back")
		})
	}
}

// A handler that serves the items of a batch by the same router answers requests of their
// own: each is charged.
func TestRequestsThatAHandlerMakesAreChargedEach(t *testing.T) {
	t.Parallel()
	for name, sub := range map[string]func(r *http.Request) *http.Request{
		"new": func(r *http.Request) *http.Request {
			sub := httptest.NewRequest(http.MethodGet, "/item", http.NoBody)
			return sub.WithContext(r.Context())
		},
		"clone": func(r *http.Request) *http.Request {
			sub := r.Clone(r.Context())
			sub.URL.Path = "/item"
			return sub
		},
		"shallow copy": func(r *http.Request) *http.Request {
			sub, u := r.WithContext(r.Context()), *r.URL
			u.Path = "/item"
			sub.URL = &u
			return sub
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limits := core.Must(plugin.NewServer(plugin.ServerConfig{Limit: plugin.PerHour(3)}))
			var statuses []int
			var handler http.Handler
			handler = limits.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/batch" {
					return
				}
				for range 3 {
					statuses = append(statuses, do(handler, sub(r)).Code)
				}
			}))
			require.Equal(t, 200, fetch(handler, "/batch").Code)
			require.Equal(t, []int{200, 200, 429}, statuses)
		})
	}
}

func TestAServerAroundItselfDecidesOutermost(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cfg  plugin.ServerConfig
		want plugin.ServerStats
	}{
		"Allow":            {plugin.ServerConfig{Allow: func(*http.Request) bool { return true }}, plugin.ServerStats{AllowListed: 1}},
		"Shadow":           {plugin.ServerConfig{Shadow: true, Block: func(*http.Request) bool { return true }}, plugin.ServerStats{Shadowed: 1}},
		"no cost":          {plugin.ServerConfig{Weight: func(*http.Request) (int64, error) { return 0, nil }}, plugin.ServerStats{Allowed: 1}},
		"Exclude":          {plugin.ServerConfig{Exclude: func(*http.Request) bool { return true }}, plugin.ServerStats{}},
		"excluded outside": {plugin.ServerConfig{Exclude: func(r *http.Request) bool { return r.URL.Path == "/a/b" }}, plugin.ServerStats{Allowed: 1}},
		"a failing store":  {plugin.ServerConfig{Store: brokenStore{}}, plugin.ServerStats{Failed: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := core.Must(plugin.NewServer(c.cfg))
			h := s.Handler(http.StripPrefix("/a", s.Handler(http.HandlerFunc(quick))))
			require.Equal(t, 200, fetch(h, "/a/b").Code)
			require.Equal(t, c.want, s.Stats())
		})
	}
}
