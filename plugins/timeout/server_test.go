package timeout_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/reject"
	"github.com/gresil/gresil/internal/resiltest"
	"github.com/gresil/gresil/plugins/timeout"
	"github.com/gresil/gresil/server"
)

// modes runs a test for a deadline in the context and for Cut, in a bubble.
func modes(t *testing.T, test func(t *testing.T, cut bool, limit *timeout.Timeout, plugin *timeout.Server)) {
	t.Helper()
	for name, cut := range map[string]bool{"deadline": false, "Cut": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				limit := core.Must(timeout.New(timeout.Config{Name: "api", Limit: time.Second}))
				test(t, cut, limit, timeout.NewServer(limit, timeout.ServerOptions{Cut: cut}))
			})
		})
	}
}

// handle runs one request through the plugin.
func handle(t *testing.T, ctx context.Context, plugin *timeout.Server, h http.HandlerFunc) *httptest.ResponseRecorder { //nolint:revive // t first
	t.Helper()
	w := httptest.NewRecorder()
	w.Header().Set("X-Outer", "kept")
	w.Header().Set("X-Deleted", "outer")
	plugin.Handler(h).ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
	return w
}

func TestHandlerInTime(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 200_000)
	for name, c := range map[string]struct {
		h      http.HandlerFunc
		status int
		text   string
	}{
		"writes":       {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "fine") }, 200, "fine"},
		"nothing":      {func(http.ResponseWriter, *http.Request) {}, 200, ""},
		"status alone": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }, 204, ""},
		"long":         {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, long) }, 200, long},
		"503": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, "busy")
		}, 503, "busy"},
		"503 alone": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }, 503, ""},
	} {
		t.Run(name, func(t *testing.T) {
			modes(t, func(t *testing.T, _ bool, limit *timeout.Timeout, plugin *timeout.Server) {
				t.Helper()
				var ended <-chan struct{}
				w := handle(t, t.Context(), plugin, func(w http.ResponseWriter, r *http.Request) {
					ended = r.Context().Done()
					deadline, ok := r.Context().Deadline()
					require.True(t, ok)
					require.Equal(t, time.Second, time.Until(deadline))
					w.Header().Add("X-Outer", "sent")
					w.Header().Del("X-Deleted")
					c.h(w, r)
				})
				require.Equal(t, c.status, w.Code)
				require.Equal(t, c.text, w.Body.String())
				require.Equal(t, []string{"kept", "sent"}, w.Header().Values("X-Outer"))
				require.NotContains(t, w.Header(), "X-Deleted")
				<-ended // released
				require.Equal(t, timeout.Stats{Succeeded: 1}, limit.Stats())
			})
		})
	}
}

func TestHandlerOverTheLimit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end   func(ctx context.Context) // of the handler
		after [2]time.Duration          // the answer, without and with Cut
	}{
		"returns":         {func(ctx context.Context) { <-ctx.Done() }, [2]time.Duration{time.Second, time.Second}},
		"ignores its end": {func(context.Context) { time.Sleep(time.Minute) }, [2]time.Duration{time.Minute, time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			modes(t, func(t *testing.T, cut bool, limit *timeout.Timeout, plugin *timeout.Server) {
				t.Helper()
				var cause, late error
				start, done := time.Now(), make(chan struct{})
				w := handle(t, t.Context(), plugin, func(w http.ResponseWriter, r *http.Request) {
					defer close(done)
					c.end(r.Context())
					if cause = context.Cause(r.Context()); cut {
						time.Sleep(time.Millisecond)
						_, late = io.WriteString(w, "late")
					}
				})
				want := c.after[0]
				if cut {
					want = c.after[1]
				}
				require.Equal(t, want, time.Since(start))
				require.Equal(t, http.StatusServiceUnavailable, w.Code)
				require.Equal(t, "application/problem+json", w.Header().Get("Content-Type"))
				require.Empty(t, w.Header().Get("Retry-After"))
				require.Equal(t, "kept", w.Header().Get("X-Outer"))
				require.Contains(t, w.Body.String(), "The request took too long.")
				<-done
				requireTimeout(t, cause, "api")
				if cut {
					require.Equal(t, http.ErrHandlerTimeout, late)
				}
				require.Equal(t, timeout.Stats{TimedOut: 1}, limit.Stats())
			})
		})
	}
}

// Without Cut a response that has begun, or was hijacked, is left alone.
func TestLateResponse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limit := core.Must(timeout.New(timeout.Config{Limit: time.Second}))
		w := handle(t, t.Context(), timeout.NewServer(limit, timeout.ServerOptions{}), func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusAccepted)
			require.NoError(t, http.NewResponseController(w).Flush(), "it can stream")
			<-r.Context().Done()
			_, _ = io.WriteString(w, "late")
		})
		require.Equal(t, http.StatusAccepted, w.Code)
		require.Equal(t, "late", w.Body.String())
		require.Equal(t, timeout.Stats{Succeeded: 1}, limit.Stats())
	})
}

func TestOnRejected(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, cut bool, limit *timeout.Timeout, _ *timeout.Server) {
		t.Helper()
		var got server.Rejection
		plugin := timeout.NewServer(limit, timeout.ServerOptions{Cut: cut, OnRejected: func(w http.ResponseWriter, r *http.Request, rej server.Rejection) {
			require.NoError(t, r.Context().Err(), "the caller's")
			got = rej
			w.WriteHeader(http.StatusGatewayTimeout)
		}})
		w := handle(t, t.Context(), plugin, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		require.Equal(t, http.StatusGatewayTimeout, w.Code)
		require.Zero(t, w.Body.Len())
		requireTimeout(t, got.Err, "api")
		require.Equal(t, http.StatusServiceUnavailable, got.Status)
		other := plugin.Override(t.Context(), func(o *timeout.ServerOptions) { o.OnRejected = nil })
		require.Equal(t, http.StatusServiceUnavailable, handle(t, other, plugin, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }).Code)
	})
}

func TestServerOverride(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, _ bool, limit *timeout.Timeout, plugin *timeout.Server) {
		t.Helper()
		for name, c := range map[string]struct {
			ctx  context.Context
			want time.Duration // 0: there is no deadline
		}{
			"disabled": {plugin.Override(t.Context(), func(o *timeout.ServerOptions) { o.Disabled = true }), 0},
			"limit":    {limit.Override(t.Context(), func(c *timeout.Config) { c.Limit = time.Minute }), time.Minute},
			"no limit": {limit.Override(t.Context(), func(c *timeout.Config) { c.Limit = -1 }), 0},
		} {
			handle(t, c.ctx, plugin, func(_ http.ResponseWriter, r *http.Request) {
				deadline, ok := r.Context().Deadline()
				require.Equal(t, c.want != 0, ok && time.Until(deadline) < time.Hour, name)
				if c.want != 0 {
					require.Equal(t, c.want, time.Until(deadline), name)
				}
			})
		}
		require.Equal(t, timeout.Stats{Succeeded: 2}, limit.Stats())
	})
}

func TestPanicOfTheHandler(t *testing.T) {
	t.Parallel()
	for _, value := range []any{"boom", http.ErrAbortHandler, errBoom} {
		modes(t, func(t *testing.T, _ bool, limit *timeout.Timeout, plugin *timeout.Server) {
			t.Helper()
			require.PanicsWithValue(t, value, func() { handle(t, t.Context(), plugin, func(http.ResponseWriter, *http.Request) { panic(value) }) })
			require.Equal(t, timeout.Stats{Failed: 1}, limit.Stats())
		})
	}
}

func TestClientThatWentAway(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, _ bool, limit *timeout.Timeout, plugin *timeout.Server) {
		t.Helper()
		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(100*time.Millisecond, func() { cancel(gone) })
		cause := make(chan error, 1)
		w := handle(t, ctx, plugin, func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			cause <- context.Cause(r.Context())
		})
		require.Equal(t, gone, <-cause)
		require.NotContains(t, w.Body.String(), "too long")
		require.Equal(t, timeout.Stats{Failed: 1}, limit.Stats())
	})
}

// An outer breaker counts the answer: the handler was called.
func TestRejectionsOfInnerPlugins(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		plugin := timeout.NewServer(core.Must(timeout.New(timeout.Config{Limit: time.Second})), timeout.ServerOptions{})
		for status, h := range map[int]http.HandlerFunc{
			429: func(w http.ResponseWriter, r *http.Request) {
				server.Reject(w, r, server.Rejection{Status: 429, Err: core.ErrRejected})
			},
			503: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		} {
			var rec reject.Recorder
			plugin.Handler(h).ServeHTTP(rec.Wrap(httptest.NewRecorder()), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
			require.Equal(t, status, rec.Status())
			require.Equal(t, status == 429, rec.Rejected() != nil)
		}
	})
}

func TestServerOfNetHTTP(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, cut bool, _ *timeout.Timeout, plugin *timeout.Server) {
		t.Helper()
		h := func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			switch chi.URLParam(r, "how") {
			case "slow":
				<-r.Context().Done()
				return
			case "hints":
				w.WriteHeader(http.StatusEarlyHints)
				w.WriteHeader(http.StatusNotFound)
				return
			}
			if r.Context().Err() != nil {
				w.WriteHeader(http.StatusInternalServerError)
			}
		}
		r := chi.NewRouter()
		if !cut {
			r.Use(plugin.Handler)
		}
		r.Post("/{how}", h)
		handler := http.Handler(r)
		if cut {
			handler = plugin.Handler(r)
		}
		srv := resiltest.Serve(t, resiltest.NewNetwork(), handler)
		tr := srv.Transport()
		for _, c := range []struct {
			path   string
			status int
		}{{"/slow", 503}, {"/quick", 200}, {"/slow", 503}, {"/quick", 200}, {"/hints", 404}} {
			req := core.Must(http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL+c.path, io.MultiReader(strings.NewReader("upload"))))
			resp := core.Must(tr.RoundTrip(req))
			core.Must(io.Copy(io.Discard, resp.Body))
			require.NoError(t, resp.Body.Close())
			require.Equal(t, c.status, resp.StatusCode, c.path)
			time.Sleep(time.Minute)
		}
	})
}

// slow is a body that counts how often it is read.
type slow struct {
	io.ReadCloser
	reads *atomic.Int32
}

func (s slow) Read([]byte) (int, error) {
	s.reads.Add(1)
	time.Sleep(time.Minute)
	return 0, io.ErrUnexpectedEOF
}

// A handler that is cut off may still read the body, which need not be safe for concurrent use.
func TestCutLeavesTheBody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		plugin := timeout.NewServer(core.Must(timeout.New(timeout.Config{Limit: time.Second})), timeout.ServerOptions{Cut: true})
		handler := plugin.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = r.Body.Read(nil) }))
		var reads atomic.Int32
		srv := resiltest.Serve(t, resiltest.NewNetwork(), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.Body = slow{r.Body, &reads}
			handler.ServeHTTP(w, r)
		}))
		req := core.Must(http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL, strings.NewReader("upload")))
		resp := core.Must(srv.Transport().RoundTrip(req))
		defer func() { _ = resp.Body.Close() }()
		require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
		require.EqualValues(t, 1, reads.Load(), "by the handler")
		time.Sleep(time.Minute) // until it returns
	})
}
