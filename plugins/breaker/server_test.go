package breaker_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/recorder"
	"github.com/gresil/gresil/plugins/breaker"
	"github.com/gresil/gresil/server"
)

type timeoutError struct{}

func (timeoutError) Error() string { return "timed out" }
func (timeoutError) Timeout() bool { return true }

func newServer(t *testing.T, cfg breaker.ServerConfig) *breaker.Server {
	t.Helper()
	s, err := breaker.NewServer(cfg)
	require.NoError(t, err)
	return s
}

// status sends these.
func status(all ...int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for _, s := range all {
			w.WriteHeader(s)
		}
	}
}

func serve(ctx context.Context, h http.Handler, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, path, http.NoBody))
	return w
}

func TestServerOutcomes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limit, cancel := context.WithTimeoutCause(t.Context(), time.Second, timeoutError{})
		defer cancel()
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		time.Sleep(time.Minute)
		panics := func(v any) http.HandlerFunc { return func(http.ResponseWriter, *http.Request) { panic(v) } }
		for _, c := range []struct {
			name    string
			ctx     context.Context
			handler http.HandlerFunc
			want    core.Outcome
		}{
			{"nothing sent", t.Context(), func(http.ResponseWriter, *http.Request) {}, core.Success},
			{"404", t.Context(), status(404), core.Success},
			{"500", t.Context(), status(500), core.Failure},
			{"501", t.Context(), status(501), core.Success},
			{"100 and 503", t.Context(), status(100, 503), core.Failure},
			{"only the first counts", t.Context(), status(200, 500), core.Success},
			{"panic", t.Context(), panics("handler"), core.Failure},
			{"panic when the client has gone", gone, panics("handler"), core.Failure},
			{"abort", t.Context(), panics(http.ErrAbortHandler), core.Ignored},
			{"the client has gone", gone, status(500), core.Ignored},
			{"a timeout further out", limit, status(200), core.Failure},
			{"rejected further in", t.Context(), func(w http.ResponseWriter, r *http.Request) { server.Reject(w, r, server.Rejection{}) }, core.Ignored},
		} {
			var got []core.Outcome
			p := newServer(t, breaker.ServerConfig{Registry: recorded(func(o core.Outcome, _ time.Duration) { got = append(got, o) })})
			func() {
				defer func() { _ = recover() }()
				serve(c.ctx, p.Handler(c.handler), "/")
			}()
			require.Equal(t, []core.Outcome{c.want}, got, c.name)
		}
	})
}

func TestServerOpensAndCloses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		answer, calls := 500, 0
		p := newServer(t, breaker.ServerConfig{Name: "shop", Window: 4, Trials: 2})
		h := p.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { calls++; w.WriteHeader(answer) }))
		for range 4 {
			require.Equal(t, 500, serve(t.Context(), h, "/").Code)
		}
		time.Sleep(100 * time.Millisecond)
		w := serve(t.Context(), h, "/")
		require.Equal(t, 503, w.Code)
		require.Equal(t, "60", w.Header().Get("Retry-After"), "59.9s, rounded up")
		require.Equal(t, "application/problem+json", w.Header().Get("Content-Type"))
		require.NotContains(t, w.Body.String(), "shop", "nothing of the inside")
		require.Equal(t, 4, calls)
		time.Sleep(time.Minute)
		answer = 204
		for range 2 {
			require.Equal(t, 204, serve(t.Context(), h, "/").Code)
		}
		require.Equal(t, breaker.Closed, p.For("").State())
		require.Equal(t, []any{"shop", server.Admission + 10}, []any{p.Name(), p.Phase()})
		require.EqualValues(t, 1, p.Stats().Rejected)
		require.NoError(t, p.For("").SetState(breaker.ForcedOpen))
		require.Empty(t, serve(t.Context(), h, "/").Header().Get("Retry-After"), "waiting does not help")
	})
}

func TestServerRejectionIsMarked(t *testing.T) {
	t.Parallel()
	p := newServer(t, breaker.ServerConfig{Initial: breaker.ForcedOpen})
	seen := new(recorder.Recorder)
	w := seen.Wrap(httptest.NewRecorder())
	p.Handler(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
	require.ErrorIs(t, seen.Rejected(), breaker.ErrOpen)
}

func TestAHandlerThatPanicsGivesItsSlotBack(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		end  func()
		want any
		then breaker.State
	}{
		{func() { panic("handler") }, "handler", breaker.Open},
		{func() { panic(http.ErrAbortHandler) }, http.ErrAbortHandler, breaker.HalfOpen},
		{runtime.Goexit, nil, breaker.HalfOpen},
	} {
		p := newServer(t, breaker.ServerConfig{Trials: 1, Initial: breaker.HalfOpen})
		h := p.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { c.end() }))
		var panicked any
		var all sync.WaitGroup
		all.Go(func() {
			defer func() { panicked = recover() }()
			serve(t.Context(), h, "/")
		})
		all.Wait()
		require.Equal(t, c.want, panicked)
		require.Equal(t, c.then, p.For("").State())
		require.Zero(t, p.For("").Snapshot().TrialsRunning)
	}
}

func TestServerKeys(t *testing.T) {
	t.Parallel()
	p := newServer(t, breaker.ServerConfig{Name: "routes", Window: 1, Key: server.Pattern})
	r := chi.NewRouter()
	with := r.With(p.Handler)
	with.Get("/broken/{id}", status(500))
	with.Get("/well/{id}", func(http.ResponseWriter, *http.Request) {})
	require.Equal(t, 500, serve(t.Context(), r, "/broken/1").Code)
	require.Equal(t, 503, serve(t.Context(), r, "/broken/2").Code)
	require.Equal(t, 200, serve(t.Context(), r, "/well/1").Code)
	require.Equal(t, breaker.Open, p.For("/broken/{id}").State())
	require.Equal(t, 2, p.Group().Stats().Keys)
	require.EqualValues(t, 1, p.Stats().Rejected)
	bare := p.Handler(status(500))
	require.Equal(t, 500, serve(t.Context(), bare, "/").Code)
	require.Equal(t, breaker.Open, p.For("").State(), "those without a key share one")
	require.Equal(t, "routes", p.Name())
	require.Equal(t, 503, serve(t.Context(), bare, "/").Code)
	require.NoError(t, p.Close())
}

func TestServerClassifyIsYours(t *testing.T) {
	t.Parallel()
	p := newServer(t, breaker.ServerConfig{Window: 1, Classify: func(r *http.Request, status int) core.Outcome {
		if r.URL.Path == "/strict" && status == 404 {
			return core.Failure
		}
		return core.Success
	}})
	h := p.Handler(http.NotFoundHandler())
	serve(t.Context(), h, "/")
	require.Equal(t, breaker.Closed, p.For("").State())
	serve(t.Context(), h, "/strict")
	require.Equal(t, breaker.Open, p.For("").State())
}

func TestServerConfig(t *testing.T) {
	t.Parallel()
	_, err := breaker.NewServer(breaker.ServerConfig{Window: -1, MaxKeys: 7, MaxHalfOpen: -1})
	for _, field := range []string{"breaker.ServerConfig.Window", "breaker.ServerConfig.MaxHalfOpen", "breaker.ServerConfig.MaxKeys"} {
		require.ErrorContains(t, err, field)
	}
	_, err = breaker.NewServer(breaker.ServerConfig{MaxKeys: -1, Key: server.Pattern})
	require.ErrorContains(t, err, "breaker.ServerConfig.MaxKeys")
	require.ErrorIs(t, err, core.ErrConfig)

	var r core.Registry
	base := breaker.ServerConfig{Name: "shop", Registry: &r}
	one := newServer(t, base)
	found, _ := core.Lookup[*breaker.Server](&r, "shop")
	require.Same(t, one, found)
	require.Nil(t, one.Group())
	require.Equal(t, base, one.Config())
	_, err = breaker.NewServer(base)
	require.ErrorContains(t, err, "already registered")
	keyed := with(base, func(c *breaker.ServerConfig) { c.Key = server.Pattern })
	_, err = breaker.NewServer(keyed)
	require.ErrorContains(t, err, "already registered")
	require.NoError(t, one.Close())
	many := newServer(t, keyed)
	found, _ = core.Lookup[*breaker.Server](&r, "shop")
	require.Same(t, many, found)
	require.NoError(t, many.Close())
}

func TestServer_OnRejected(t *testing.T) {
	t.Parallel()
	writes := true
	p := newServer(t, breaker.ServerConfig{Name: "api", Initial: breaker.ForcedOpen, OnRejected: func(w http.ResponseWriter, r *http.Request, rej server.Rejection) {
		require.ErrorIs(t, rej.Err, breaker.ErrOpen)
		if writes {
			rej.Status = http.StatusTeapot
			server.Reject(w, r, rej)
		}
	}})
	outer := newServer(t, breaker.ServerConfig{Window: 1})
	h := outer.Handler(p.Handler(status(200)))
	require.Equal(t, 418, serve(t.Context(), h, "/").Code)
	writes = false
	require.Equal(t, 503, serve(t.Context(), h, "/").Code, "the default is sent")
	require.EqualValues(t, 2, outer.Stats().Ignored, "the handler was not called")
	require.Equal(t, "breaker.Server(api)", p.String())
}
