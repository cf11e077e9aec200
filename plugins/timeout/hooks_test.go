package timeout_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/plugins/timeout"
)

func TestHooks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var told []timeout.Info
		var plugins []interface {
			Observe(h timeout.Hooks) func()
		}
		note := timeout.Hooks{TimedOut: func(ctx context.Context, info timeout.Info) {
			require.NoError(t, ctx.Err(), "the caller's")
			told = append(told, info)
			for _, p := range plugins {
				p.Observe(timeout.Hooks{})() // a hook may call back
			}
		}}
		bad := timeout.Hooks{TimedOut: func(context.Context, timeout.Info) { panic("hook") }}
		attempt := core.Must(timeout.NewAttempt(timeout.Config{Limit: time.Second, Hooks: bad.Join(note)}))
		handler := core.Must(timeout.NewServer(timeout.ServerConfig{Limit: 2 * time.Second, Hooks: note, Late: func(context.Context, timeout.Ended) { panic("hook") }}))
		plugins = append(plugins, attempt, handler)
		cancel := handler.Observe(bad)

		_, err := get(t, t.Context(), attempt.Transport(after(time.Hour, "")))
		requireTimeout(t, err, "attempt")
		w := httptest.NewRecorder()
		handler.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })).
			ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
		synctest.Wait()
		require.Equal(t, 503, w.Code)
		require.Len(t, told, 2)
		require.Equal(t, timeout.Info{Limit: time.Second, Elapsed: time.Second, Err: err}, told[0])
		require.Equal(t, 2*time.Second, told[1].Limit)
		require.EqualValues(t, 1, attempt.Stats().HookPanics)
		require.EqualValues(t, 2, handler.Stats().HookPanics, "of Observe and of Late")
		cancel()
	})
}
