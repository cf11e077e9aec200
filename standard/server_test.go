package standard_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/plugins/ratelimit"
	"github.com/gresil/gresil/plugins/timeout"
	"github.com/gresil/gresil/server"
	"github.com/gresil/gresil/standard"
)

func TestServerZeroConfig(t *testing.T) {
	t.Parallel()
	pipeline, err := standard.NewServer(standard.ServerConfig{})
	require.NoError(t, err)
	require.Equal(t, "Admission ratelimit.Server(standard) > Handling timeout.Server(standard)", pipeline.String())
	require.Empty(t, pipeline.Check())
}

func TestServerConfigMistakes(t *testing.T) {
	t.Parallel()
	taken := &core.Registry{}
	_, err := timeout.New(timeout.Config{Name: "standard", Registry: taken})
	require.NoError(t, err)
	for want, cfg := range map[string]standard.ServerConfig{
		"standard.ServerConfig.Limit.MaxKeys = -1: ": {Limit: ratelimit.Config{MaxKeys: -1}},
		"already registered":                         {Registry: taken},
		"MaxKeys = -1: must be 0 to 1073741824 (0 means 1048576)\nstandard.ServerConfig.Plugins[0] = <nil>: must be a plugin": {
			Registry: &core.Registry{}, Limit: ratelimit.Config{MaxKeys: -1}, Plugins: []server.Plugin{nil},
		},
	} {
		before := slices.Collect(cfg.Registry.All())
		pipeline, err := standard.NewServer(cfg)
		require.Nil(t, pipeline)
		require.ErrorIs(t, err, core.ErrConfig)
		require.ErrorContains(t, err, want)
		require.Equal(t, before, slices.Collect(cfg.Registry.All()), "what was made before the failure is removed")
	}
}

func TestServerLimitsAndCuts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := &core.Registry{}
		pipeline, err := standard.NewServer(standard.ServerConfig{
			Name: "web", Registry: registry, Limit: ratelimit.Config{Limit: ratelimit.PerMinute(2)}, Timeout: timeout.Config{Limit: time.Second},
			Key: server.Header("X-API-Key"), Plugins: []server.Plugin{server.Middleware(func(next http.Handler) http.Handler { return next }, server.Setup)},
		})
		require.NoError(t, err)
		h := pipeline.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
		for _, want := range []int{503, 503, 429} {
			w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
			r.Header.Set("X-API-Key", "one")
			h.ServeHTTP(w, r)
			require.Equal(t, want, w.Code)
		}
		_, ok := core.Lookup[*ratelimit.Limiter](registry, "web")
		require.True(t, ok)
	})
}
