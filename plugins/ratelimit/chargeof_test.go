package ratelimit_test

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-chi/chi/v5/middleware"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/recorder"
	"github.com/gresil/gresil/plugins/ratelimit"
	"github.com/gresil/gresil/plugins/timeout"
)

func TestTheHandlerGetsTheRequestItself(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]ratelimit.ServerConfig{
		"plain":  {},
		"fields": {Headers: everyHeader, Layers: []ratelimit.Layer{{Name: "all"}}},
		"copied": {ChargeInContext: true},
		"free":   {Allow: func(*http.Request) bool { return true }},
	} {
		var got *http.Request
		found := false
		s := core.Must(ratelimit.NewServer(cfg))
		r := request(http.MethodGet, "/")
		do(s.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			got = r
			_, found = ratelimit.ChargeOf(w)
		})), r)
		require.True(t, found, name)
		require.Equal(t, name != "copied", got == r, name)
	}
}

func TestAChargeIsFoundThroughWriters(t *testing.T) {
	t.Parallel()
	within := func(d time.Duration) func(http.Handler) http.Handler {
		return timeout.NewServer(core.Must(timeout.New(timeout.Config{Limit: d})), timeout.ServerOptions{}).Handler
	}
	chi := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(middleware.NewWrapResponseWriter(w, r.ProtoMajor), r)
		})
	}
	for name, tt := range map[string]struct {
		between func(http.Handler) http.Handler
		found   bool
	}{
		"nothing":              {func(h http.Handler) http.Handler { return h }, true},
		"chi":                  {chi, true},
		"recorder":             {recording, true},
		"timeout plugin":       {within(time.Minute), true},
		"both":                 {func(h http.Handler) http.Handler { return chi(within(time.Minute)(chi(h))) }, true},
		"two timeouts":         {func(h http.Handler) http.Handler { return within(time.Minute)(within(time.Minute)(h)) }, true},
		"no Unwrap":            {hiding, false},
		"no Unwrap, above":     {func(h http.Handler) http.Handler { return within(time.Minute)(hiding(h)) }, false},
		"no Unwrap, below":     {func(h http.Handler) http.Handler { return hiding(within(time.Minute)(h)) }, false},
		"http.TimeoutHandler":  {func(h http.Handler) http.Handler { return http.TimeoutHandler(h, time.Minute, "late") }, false},
		"Unwrap to nil":        {func(h http.Handler) http.Handler { return ending(h) }, false},
		"a type of its own":    {func(h http.Handler) http.Handler { return valuing(h) }, true},
		"hijacked by a plugin": {func(h http.Handler) http.Handler { return hijacking(h) }, true},
	} {
		for _, inContext := range []bool{false, true} {
			outer := core.Must(ratelimit.NewServer(ratelimit.ServerConfig{Name: "outer", ChargeInContext: inContext}))
			inner := core.Must(ratelimit.NewServer(ratelimit.ServerConfig{Name: "inner", ChargeInContext: inContext}))
			called := false
			fetch(outer.Handler(inner.Handler(tt.between(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				called = true
				c, ok := ratelimit.ChargeOf(w)
				require.Equal(t, tt.found, ok, name)
				require.Equal(t, ok, c != nil)
				mine, ok := inner.ChargeOf(w)
				require.Equal(t, tt.found, ok, name)
				require.Same(t, c, mine)
				_, ok = outer.ChargeOf(w)
				require.Equal(t, tt.found, ok, name)
				c, ok = ratelimit.ChargeFrom(r.Context())
				require.Equal(t, inContext, ok, name)
				require.Equal(t, ok, c != nil)
				mine, ok = inner.ChargeFrom(r.Context())
				require.Equal(t, inContext, ok, name)
				require.Same(t, c, mine)
				_, ok = outer.ChargeFrom(r.Context())
				require.Equal(t, inContext, ok, name)
			})))), "/")
			require.True(t, called, name)
		}
	}
}

func TestAChargeIsFoundAfterTheLimitOfTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := core.Must(ratelimit.NewServer(ratelimit.ServerConfig{Limit: ratelimit.PerHour(10)}))
		limit := timeout.NewServer(core.Must(timeout.New(timeout.Config{Limit: time.Second})), timeout.ServerOptions{})
		done := make(chan struct{})
		w := fetch(s.Handler(limit.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer close(done)
			<-r.Context().Done()
			time.Sleep(time.Second)
			charge, ok := ratelimit.ChargeOf(w)
			if !ok {
				t.Error("no charge")
				return
			}
			if err := charge.Refund(context.WithoutCancel(r.Context())); err != nil {
				t.Error(err)
			}
		}))), "/")
		require.Equal(t, http.StatusServiceUnavailable, w.Code)
		<-done
		require.EqualValues(t, 10, core.Must(s.Limiter().Peek(t.Context(), ip)).Remaining)
	})
}

func recording(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := new(recorder.Recorder)
		w = rec.Wrap(w)
		rec.OnHeader(func(int) {})
		next.ServeHTTP(w, r)
	})
}

type endingWriter struct{ http.ResponseWriter }

func (endingWriter) Unwrap() http.ResponseWriter { return nil }

func ending(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { next.ServeHTTP(endingWriter{w}, r) })
}

type valuingWriter struct{ http.ResponseWriter }

func (w valuingWriter) Value(key any) any { return recorder.Value(w.ResponseWriter, key) }

func valuing(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { next.ServeHTTP(valuingWriter{w}, r) })
}

type hijackingWriter struct{ http.ResponseWriter }

func (w hijackingWriter) Unwrap() http.ResponseWriter                { return w.ResponseWriter }
func (hijackingWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, net.ErrClosed }

func hijacking(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { next.ServeHTTP(hijackingWriter{w}, r) })
}
