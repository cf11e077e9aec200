package ratelimit_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	plugin "github.com/gresil/gresil/plugins/ratelimit"
)

type inBatch struct{}

// The target of a request of a batch can be that of the batch itself.
func TestRequestsOfABatchAreChargedWhateverTheirPath(t *testing.T) {
	t.Parallel()
	part := func(r *http.Request, path string) *http.Request {
		sub := httptest.NewRequest(r.Method, "/", strings.NewReader("part"))
		sub.URL.Path = path
		return sub.WithContext(context.WithValue(r.Context(), inBatch{}, true))
	}
	for name, sub := range map[string]func(r *http.Request) *http.Request{
		"the same path":  func(r *http.Request) *http.Request { return part(r, "/batch/items") },
		"a suffix of it": func(r *http.Request) *http.Request { return part(r, "/items") },
		"no path":        func(r *http.Request) *http.Request { return part(r, "") },
		"a clone with a body": func(r *http.Request) *http.Request {
			s := part(r, "")
			c := r.Clone(s.Context())
			c.Body = s.Body
			return c
		},
		"without a header": func(r *http.Request) *http.Request {
			s := part(r, "/batch/items")
			s.Header = nil
			return s
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limits := core.Must(plugin.NewServer(plugin.ServerConfig{Limit: plugin.PerHour(5)}))
			var statuses []int
			var inner http.Handler
			outer := limits.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { inner.ServeHTTP(w, r) }))
			inner = limits.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				if r.Context().Value(inBatch{}) != nil {
					return
				}
				for range 6 {
					statuses = append(statuses, do(outer, sub(r)).Code)
				}
			}))
			r := httptest.NewRequest(http.MethodPost, "/batch/items", strings.NewReader("[]"))
			require.Equal(t, 200, do(outer, r).Code)
			require.Equal(t, []int{200, 200, 200, 200, 429, 429}, statuses)
		})
	}
}

// A shallow copy below a hidden writer might be that of a middleware, so one is free.
func TestOfManyShallowCopiesOneIsFree(t *testing.T) {
	t.Parallel()
	limits := core.Must(plugin.NewServer(plugin.ServerConfig{Limit: plugin.PerHour(3)}))
	var statuses []int
	var handler http.Handler
	handler = limits.Handler(limits.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Context().Value(inBatch{}) != nil {
			return
		}
		for range 5 {
			sub := r.WithContext(context.WithValue(r.Context(), inBatch{}, true))
			sub.Body = io.NopCloser(strings.NewReader("part"))
			statuses = append(statuses, do(handler, sub).Code)
		}
	})))
	require.Equal(t, 200, fetch(handler, "/batch").Code)
	require.Equal(t, []int{200, 200, 200, 429, 429}, statuses)
}

func TestAServerAroundItselfChargesOnceBelowHiddenWriters(t *testing.T) {
	t.Parallel()
	hide := func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(opaque{w}, r) })
	}
	clone := func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(opaque{w}, r.Clone(r.Context())) })
	}
	late := func(h http.Handler) http.Handler { return http.TimeoutHandler(h, time.Minute, "late") }
	for name, between := range map[string]func(http.Handler) http.Handler{
		"StripPrefix":    func(h http.Handler) http.Handler { return hide(http.StripPrefix("/a/b", h)) },
		"TimeoutHandler": func(h http.Handler) http.Handler { return late(http.StripPrefix("/a", h)) },
		"MaxBytes":       func(h http.Handler) http.Handler { return late(http.MaxBytesHandler(h, 10)) },
		"clone":          clone,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := core.Must(plugin.NewServer(plugin.ServerConfig{Limit: plugin.PerHour(5)}))
			h := s.Handler(between(s.Handler(hide(s.Handler(late(s.Handler(http.HandlerFunc(quick))))))))
			require.Equal(t, 200, do(h, httptest.NewRequest(http.MethodPost, "/a/b", strings.NewReader("body"))).Code)
			require.Equal(t, plugin.ServerStats{Allowed: 1}, s.Stats())
		})
	}
}
