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
	"github.com/gresil/gresil/internal/eventtest"
	"github.com/gresil/gresil/internal/registry"
	"github.com/gresil/gresil/plugins/timeout"
)

func TestEvents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var told []registry.Event
		listening := eventtest.Registry(func(ctx context.Context, e registry.Event) {
			require.NoError(t, ctx.Err(), "the caller's")
			told = append(told, e)
		})
		attempt := core.Must(timeout.NewAttempt(timeout.Config{Limit: time.Second, Registry: listening}))
		handler := core.Must(timeout.NewServer(timeout.ServerConfig{
			Limit: 2 * time.Second, Registry: listening, Late: func(context.Context, timeout.Ended) { panic("does no harm") },
		}))
		_, err := get(t, t.Context(), attempt.Transport(after(time.Hour, "")))
		requireTimeout(t, err, "attempt")
		w := httptest.NewRecorder()
		handler.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })).
			ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
		synctest.Wait()
		require.Equal(t, 503, w.Code)
		require.Len(t, told, 2)
		require.Equal(t, err, told[0].Err())
		require.Equal(t, 2*time.Second, told[1].Attr("limit").Duration())
	})
}
