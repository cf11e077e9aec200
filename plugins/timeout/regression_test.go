package timeout_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/plugins/timeout"
	"github.com/gresil/gresil/server"
)

// With the limit in chi's Use, Alice's handler read Mallory's id: chi had lent her
// routing context to him.
func TestAbandonedHandlerReadTheParametersOfAnotherRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		plugin := core.Must(timeout.NewServer(timeout.ServerConfig{Limit: time.Second}))
		got := make(chan string, 1)
		r := chi.NewRouter()
		r.Get("/users/{id}", func(_ http.ResponseWriter, r *http.Request) {
			if chi.URLParam(r, "id") == "alice" {
				time.Sleep(time.Hour) // ignores its context
				got <- chi.URLParam(r, "id")
			}
		})
		h := core.Must(server.New(plugin)).Handler(r)
		get := func(id string) int {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/users/"+id, nil))
			return w.Code
		}
		require.Equal(t, 503, get("alice"))
		for range 100 {
			require.Equal(t, 200, get("mallory"))
		}
		require.Equal(t, "alice", <-got)
	})
}

// What is derived from the handler's context, or from the request's, ended with
// Canceled, and was classified as given up by the caller.
func TestDerivedContextWasCanceledAtTheLimit(t *testing.T) {
	t.Parallel()
	type key struct{}
	derive := map[string]func(context.Context) (context.Context, context.CancelFunc){
		"WithCancel": context.WithCancel,
		"WithTimeout": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Hour)
		},
		"WithValue and WithCancel": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithCancel(context.WithValue(ctx, key{}, 1))
		},
	}
	for name, derive := range derive {
		wait := func(parent context.Context) error {
			ctx, cancel := derive(parent)
			defer cancel()
			<-ctx.Done()
			var e *timeout.Error
			switch {
			case !errors.Is(ctx.Err(), context.DeadlineExceeded):
				return errors.New(name + ": Err: " + ctx.Err().Error())
			case !errors.As(context.Cause(ctx), &e) || !errors.As(context.Cause(parent), &e):
				return errors.New(name + ": Cause: " + context.Cause(ctx).Error())
			case client.Classify(ctx, nil, ctx.Err()) != core.Failure:
				return errors.New(name + ": Classify")
			}
			return nil
		}
		synctest.Test(t, func(t *testing.T) { // it fails if a goroutine is left
			result := make(chan error, 1)
			handlers := core.Must(timeout.NewServer(timeout.ServerConfig{Limit: time.Second}))
			handlers.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { result <- wait(r.Context()) })).
				ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
			require.NoError(t, <-result)

			attempts := core.Must(timeout.NewAttempt(timeout.Config{Limit: time.Second}))
			_, err := get(t, t.Context(), attempts.Transport(stub(func(r *http.Request) (*http.Response, error) {
				result <- wait(r.Context())
				return nil, r.Context().Err()
			})))
			require.ErrorIs(t, err, timeout.ErrTimeout)
			require.NoError(t, <-result)
		})
	}
}

// logging is what a middleware that logs the status wraps a writer with.
type logging struct{ http.ResponseWriter }

func (l logging) Unwrap() http.ResponseWriter { return l.ResponseWriter }

type hijackable struct{ *httptest.ResponseRecorder }

func (h hijackable) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, nil }

func TestFlushAndHijackWereLostBehindUnwrap(t *testing.T) {
	t.Parallel()
	plugin := core.Must(timeout.NewServer(timeout.ServerConfig{}))
	w := httptest.NewRecorder()
	plugin.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "event")
		w.(http.Flusher).Flush()
	})).ServeHTTP(logging{hijackable{w}}, httptest.NewRequest(http.MethodGet, "/", nil))
	require.True(t, w.Flushed)
	require.Equal(t, "event", w.Body.String())

	plugin.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _, err := w.(http.Hijacker).Hijack()
		require.NoError(t, err)
		_, err = io.WriteString(w, "late")
		require.ErrorIs(t, err, http.ErrHijacked)
	})).ServeHTTP(logging{hijackable{w}}, httptest.NewRequest(http.MethodGet, "/", nil))
}

// The answer, and whoever logs the request further out, read what an abandoned
// handler still writes to. The race detector is the judge.
func TestAnswerRacedWithTheHeaderOfAnAbandonedHandler(t *testing.T) {
	t.Parallel()
	plugin := core.Must(timeout.NewServer(timeout.ServerConfig{Limit: time.Nanosecond}))
	stop, ended := make(chan struct{}), make(chan struct{})
	h := plugin.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		defer close(ended)
		for {
			r.Header.Set("Accept", "text/html")
			r.URL.Path = "/elsewhere"
			select {
			case <-stop:
				return
			default:
			}
		}
	}))
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Accept", "text/plain")
	h.ServeHTTP(w, r)
	require.Equal(t, "text/plain; charset=utf-8", w.Header().Get("Content-Type"))
	require.Equal(t, "text/plain", r.Header.Get("Accept"))
	require.Equal(t, "/", r.URL.Path)
	close(stop)
	<-ended
}

func namedInTheStack(http.ResponseWriter, *http.Request) { panic("boom") }

func TestPanicLostTheStackOfTheHandler(t *testing.T) {
	t.Parallel()
	var got []timeout.Ended
	plugin := core.Must(timeout.NewServer(timeout.ServerConfig{Panicked: func(_ context.Context, p timeout.Ended) {
		got = append(got, p)
		panic("in the hook")
	}}))
	require.PanicsWithValue(t, "boom", func() { handle(t, plugin, namedInTheStack) })
	require.PanicsWithValue(t, http.ErrAbortHandler, func() {
		handle(t, plugin, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	})
	require.Len(t, got, 1)
	require.Equal(t, "boom", got[0].Panic)
	require.Contains(t, string(got[0].Stack), "namedInTheStack")
}
