package ratelimit_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	core "github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/plugins/ratelimit"
	"github.com/gresil/gresil/server"
)

// served is a limited handler that counts what reaches it.
type served struct {
	http.Handler
	plugin *ratelimit.Server
	inner  http.Handler // what charging has limited
	calls  atomic.Int64
	status int // of the handler; 0: 200
}

func serve(tb testing.TB, cfg ratelimit.ServerConfig) *served {
	tb.Helper()
	plugin, err := ratelimit.NewServer(cfg)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, plugin.Close()) })
	s := &served{plugin: plugin}
	s.Handler = plugin.Handler(s.handler())
	return s
}

// handler is what is limited.
func (s *served) handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s.calls.Add(1)
		if s.status != 0 {
			w.WriteHeader(s.status)
		}
	})
}

func request(method, target string, header ...string) *http.Request {
	r := httptest.NewRequest(method, target, http.NoBody)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return r
}

func fetch(h http.Handler, target string, header ...string) *httptest.ResponseRecorder {
	return do(h, request(http.MethodGet, target, header...))
}

func do(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
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

// brokenStore opens, and then fails.
type brokenStore struct{}

var errDown = errors.New("dial tcp 10.0.0.5:6379: refused")

func (brokenStore) Open(string) (limits.Table, error)     { return brokenStore{}, nil }
func (brokenStore) Close() error                          { return nil }
func (brokenStore) Plan([]limits.Spec) (*limits.Plan, error) { return new(limits.Plan), nil }
func (brokenStore) Apply(context.Context, string, *limits.Plan, limits.Op) (core.Result, error) {
	return core.Result{}, errDown
}

// limitedInfo returns what the error of a rejection says.
func limitedInfo(rej server.Rejection) ratelimit.Info {
	limited, _ := errors.AsType[*core.LimitedError](rej.Err)
	return ratelimit.Info{Name: limited.Name, Result: limited.Result}
}
