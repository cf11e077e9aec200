package timeout_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"github.com/gresil/gresil/internal/recorder"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/plugins/timeout"
	"github.com/gresil/gresil/server"
)

// handle runs one request through the plugin.
func handle(t *testing.T, plugin *timeout.Server, h http.HandlerFunc) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	plugin.Handler(h).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
	return w
}

func TestHandlerInTime(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		h      http.HandlerFunc
		status int
		text   string
	}{
		"writes": {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "fine") }, 200, "fine"},
		"status": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNotFound)
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, "no")
		}, 404, "no"},
		"nothing":       {func(http.ResponseWriter, *http.Request) {}, 200, ""},
		"status alone":  {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }, 204, ""},
		"beyond buffer": {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strings.Repeat("x", 200_000)) }, 200, strings.Repeat("x", 200_000)},
		"in pieces beyond buffer": {func(w http.ResponseWriter, _ *http.Request) {
			for range 2000 {
				_, _ = io.WriteString(w, strings.Repeat("x", 100))
			}
		}, 200, strings.Repeat("x", 200_000)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plugin := core.Must(timeout.NewServer(timeout.ServerConfig{}))
			var ended <-chan struct{}
			w := handle(t, plugin, func(w http.ResponseWriter, r *http.Request) {
				ended = r.Context().Done()
				tt.h(w, r)
			})
			require.Equal(t, tt.status, w.Code)
			require.Equal(t, tt.text, w.Body.String())
			select {
			case <-ended:
			default:
				t.Error("the context is alive after the request")
			}
			require.Equal(t, timeout.Stats{Succeeded: 1}, plugin.Stats().Stats)
		})
	}
}

func TestHandlerOverTheLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var (
			cause, ctxErr, late error
			handlerEnded        time.Duration
		)
		plugin := core.Must(timeout.NewServer(timeout.ServerConfig{Limit: time.Second}))
		w := handle(t, plugin, func(w http.ResponseWriter, r *http.Request) {
			deadline, ok := r.Context().Deadline()
			require.True(t, ok)
			require.Equal(t, start.Add(time.Second), deadline)
			w.Header().Set("X-Handler", "never sent")
			w.WriteHeader(http.StatusOK)
			_, err := io.WriteString(w, "held back")
			require.NoError(t, err)
			<-r.Context().Done()
			cause, ctxErr = context.Cause(r.Context()), r.Context().Err()
			time.Sleep(time.Millisecond) // the answer goes out
			_, late = io.WriteString(w, "too late")
			w.WriteHeader(http.StatusTeapot)
			handlerEnded = time.Since(start)
		})
		require.Equal(t, time.Second, time.Since(start))
		require.EqualValues(t, 1, plugin.Stats().Abandoned)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, time.Second+time.Millisecond, handlerEnded)
		requireTimeout(t, cause, "server")
		require.Equal(t, context.DeadlineExceeded, ctxErr)
		require.Equal(t, http.ErrHandlerTimeout, late)

		require.Equal(t, http.StatusServiceUnavailable, w.Code)
		require.Empty(t, w.Header().Get("Retry-After"))
		require.Equal(t, "application/problem+json", w.Header().Get("Content-Type"))
		require.Empty(t, w.Header().Get("X-Handler"))
		require.Empty(t, w.Header().Get("Connection"), "there was no body to wait for")
		var problem map[string]any
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &problem), "and nothing after it")
		require.Equal(t, map[string]any{
			"type": "about:blank", "title": "Service Unavailable", "status": 503.0, "detail": "The request took too long.",
		}, problem)
		require.Equal(t, timeout.ServerStats{Stats: timeout.Stats{TimedOut: 1}}, plugin.Stats())
	})
}

// Nothing that a handler does to its writer after the limit reaches the response.
func TestLateHandlerGetsErrHandlerTimeoutForEverything(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var errs []error
		httpClient, _ := serve(t, core.Must(timeout.NewServer(timeout.ServerConfig{
			Limit: time.Second, OnRejected: func(w http.ResponseWriter, r *http.Request, rej server.Rejection) {
				requireTimeout(t, rej.Err, "server")
				rej.Status = http.StatusGatewayTimeout
				server.Reject(w, r, rej)
			},
		})).Handler(
			http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				time.Sleep(2 * time.Second) // does not mind its context
				c := http.NewResponseController(w)
				_, write := io.WriteString(w, "late")
				_, _, hijack := c.Hijack()
				errs = []error{write, hijack, c.Flush(), c.SetReadDeadline(time.Now()), c.SetWriteDeadline(time.Now()), c.EnableFullDuplex()}
				w.WriteHeader(http.StatusEarlyHints)
			})))
		resp, err := httpClient.Get("http://example.test/")
		require.NoError(t, err)
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, 504, resp.StatusCode)
		require.True(t, json.Valid(text), "%s", text)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Len(t, errs, 6)
		for i, err := range errs {
			require.ErrorIs(t, err, http.ErrHandlerTimeout, "%d", i)
		}
	})
}

func TestLateIsToldHowTheHandlerEnded(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		end    func()
		panics any
		count  uint64
	}{
		{"returns", func() {}, nil, 0},
		{"panics", func() { panic("boom") }, "boom", 1},
		{"aborts", func() { panic(http.ErrAbortHandler) }, http.ErrAbortHandler, 0},
		{"exits", runtime.Goexit, nil, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var late []timeout.Ended
				plugin := core.Must(timeout.NewServer(timeout.ServerConfig{Limit: time.Second, Late: func(ctx context.Context, l timeout.Ended) {
					requireTimeout(t, context.Cause(ctx), "server")
					late = append(late, l)
				}}))
				w := handle(t, plugin, func(http.ResponseWriter, *http.Request) { time.Sleep(time.Minute); tt.end() })
				require.Equal(t, 503, w.Code)
				require.EqualValues(t, 1, plugin.Stats().Abandoned)
				require.Empty(t, late)
				time.Sleep(time.Hour)
				synctest.Wait()
				require.Zero(t, plugin.Stats().Abandoned)
				require.Len(t, late, 1)
				require.Equal(t, time.Minute, late[0].Elapsed)
				require.Equal(t, tt.panics, late[0].Panic)
				require.Equal(t, tt.panics != nil, strings.Contains(string(late[0].Stack), "TestLateIsTold"))
				require.Equal(t, tt.count, plugin.Stats().LatePanics)
			})
		})
	}
}

func TestPanicGoesOnInTheServingGoroutine(t *testing.T) {
	t.Parallel()
	for _, value := range []any{"boom", http.ErrAbortHandler, errBoom} {
		plugin := core.Must(timeout.NewServer(timeout.ServerConfig{}))
		w := httptest.NewRecorder()
		func() {
			defer func() { require.Equal(t, value, recover()) }()
			plugin.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, "half")
				panic(value)
			})).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
			t.Error("it returned")
		}()
		require.Zero(t, w.Body.Len(), "a recoverer further out can still answer")
		require.Equal(t, timeout.Stats{Failed: 1}, plugin.Stats().Stats)
	}
}

func TestGoexitGoesOnInTheServingGoroutine(t *testing.T) {
	t.Parallel()
	plugin := core.Must(timeout.NewServer(timeout.ServerConfig{}))
	done := make(chan bool)
	go func() {
		returned := false
		defer func() { done <- returned }()
		handle(t, plugin, func(http.ResponseWriter, *http.Request) { runtime.Goexit() })
		returned = true
	}()
	require.False(t, <-done)
	require.Equal(t, timeout.Stats{Failed: 1}, plugin.Stats().Stats)
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	plugin := core.Must(timeout.NewServer(timeout.ServerConfig{}))
	w := httptest.NewRecorder()
	w.Header().Set("X-Outer", "kept")
	w.Header().Set("X-Removed", "by the handler")
	plugin.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		require.Equal(t, "kept", w.Header().Get("X-Outer"), "the handler sees what is there")
		w.Header().Del("X-Removed")
		w.Header().Set("X-Handler", "sent")
		w.WriteHeader(http.StatusCreated)
		w.Header().Set("X-Late", "not sent")
	})).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	require.Equal(t, 201, w.Code)
	require.Equal(t, http.Header{"X-Outer": {"kept"}, "X-Handler": {"sent"}}, w.Result().Header)
}

// A handler that wrote nothing leaves the response to whoever is further out.
func TestNothingIsSentForAHandlerThatWroteNothing(t *testing.T) {
	t.Parallel()
	plugin := core.Must(timeout.NewServer(timeout.ServerConfig{}))
	rec := new(recorder.Recorder)
	outer := rec.Wrap(httptest.NewRecorder())
	plugin.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Handler", "1") })).
		ServeHTTP(outer, httptest.NewRequest(http.MethodGet, "/", nil))
	require.False(t, rec.Wrote())
	require.Equal(t, "1", outer.Header().Get("X-Handler"))
}

func TestInvalidStatusPanicsInTheHandler(t *testing.T) {
	t.Parallel()
	require.PanicsWithValue(t, "timeout: invalid status 42", func() {
		handle(t, core.Must(timeout.NewServer(timeout.ServerConfig{})), func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(42) })
	})
}

// What a handler left running does to its writer never reaches the connection,
// which may serve another request by then.
func TestWriterIsDeadWhenTheHandlerHasReturned(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]http.HandlerFunc{
		"held back": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "fine") },
		"begun": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "fine")
			w.(http.Flusher).Flush()
		},
		"panicked": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		var kept http.ResponseWriter
		func() {
			defer func() { require.Equal(t, name == "panicked", recover() != nil) }()
			w := handle(t, core.Must(timeout.NewServer(timeout.ServerConfig{})), func(w http.ResponseWriter, r *http.Request) {
				kept = w
				h(w, r)
			})
			require.Equal(t, "fine", w.Body.String())
		}()
		_, err := io.WriteString(kept, "late")
		require.EqualError(t, err, "timeout: the handler has returned", name)
		require.Error(t, http.NewResponseController(kept).Flush())
	}
}

// The mark of a rejection further in goes through, and the timeout is none: the
// handler was called.
func TestRejectionFurtherInIsSeenFurtherOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		plugin := core.Must(timeout.NewServer(timeout.ServerConfig{Limit: time.Second}))
		rejected := fmt.Errorf("limited: %w", core.ErrRejected)
		for _, tt := range []struct {
			h      http.HandlerFunc
			status int
			want   error
		}{
			{func(w http.ResponseWriter, r *http.Request) {
				server.Reject(w, r, server.Rejection{Status: 429, Err: rejected})
			}, 429, rejected},
			{func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, 503, nil},
		} {
			w := httptest.NewRecorder()
			rec := new(recorder.Recorder)
			outer := rec.Wrap(w)
			plugin.Handler(tt.h).ServeHTTP(outer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
			require.Equal(t, tt.status, w.Code)
			require.Equal(t, tt.status, rec.Status())
			require.Equal(t, tt.want, rec.Rejected())
		}
	})
}

func TestClientThatWentAwayIsNotATimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gone := errors.New("gone")
		plugin := core.Must(timeout.NewServer(timeout.ServerConfig{Limit: time.Second}))
		for _, minds := range []bool{true, false} {
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(100*time.Millisecond, func() { cancel(gone) })
			cause := make(chan error, 1) // the handler is not waited for
			plugin.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				<-r.Context().Done()
				cause <- context.Cause(r.Context())
				require.Equal(t, context.Canceled, r.Context().Err())
				if !minds {
					time.Sleep(time.Hour)
				}
			})).ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
			require.Equal(t, gone, <-cause)
		}
		require.Equal(t, timeout.Stats{Succeeded: 1, Canceled: 1, Abandoned: 1}, plugin.Stats().Stats)
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		require.Zero(t, plugin.Stats().Abandoned)
	})
}

func TestNearerDeadlineOfTheServerIsSeen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		near, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		want, _ := near.Deadline()
		plugin := core.Must(timeout.NewServer(timeout.ServerConfig{Limit: time.Minute}))
		w := httptest.NewRecorder()
		plugin.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			got, _ := r.Context().Deadline()
			require.Equal(t, want, got)
			<-r.Context().Done()
			require.Equal(t, context.DeadlineExceeded, context.Cause(r.Context()))
		})).ServeHTTP(w, httptest.NewRequestWithContext(near, http.MethodGet, "/", nil))
		require.Equal(t, 200, w.Code, "it is for the handler to say")
	})
}

// At the very limit one of the two answers, and only one.
func TestHandlerThatEndsAtTheLimit(t *testing.T) {
	t.Parallel()
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			for _, cut := range []bool{false, true} {
				plugin := core.Must(timeout.NewServer(timeout.ServerConfig{Limit: time.Second, CutBody: cut}))
				w := handle(t, plugin, func(w http.ResponseWriter, _ *http.Request) {
					_, _ = io.WriteString(w, "fi")
					time.Sleep(time.Second)
					_, _ = io.WriteString(w, "ne")
				})
				time.Sleep(time.Second)
				synctest.Wait()
				stats := plugin.Stats().Stats
				switch w.Code {
				case 200:
					require.Equal(t, "fine", w.Body.String())
					require.Equal(t, timeout.Stats{Succeeded: 1}, stats)
				case 503:
					require.True(t, json.Valid(w.Body.Bytes()), w.Body.String())
					require.Equal(t, timeout.Stats{TimedOut: 1}, stats)
				default:
					t.Error(w.Code)
				}
			}
		})
	}
}

func TestUnderChi(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		plugin := core.Must(timeout.NewServer(timeout.ServerConfig{Limit: time.Second}))
		r := chi.NewRouter()
		r.Get("/users/{id}", func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, chi.URLParam(r, "id")) })
		r.Get("/slow", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		httpClient, _ := serve(t, plugin.Handler(r))
		for path, want := range map[string]int{"/users/7": 200, "/slow": 503} {
			resp, err := httpClient.Get("http://example.test" + path)
			require.NoError(t, err)
			text, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.Equal(t, want, resp.StatusCode)
			if want == 200 {
				require.Equal(t, "7", string(text))
			}
		}
	})
}
