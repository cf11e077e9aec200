package timeout_test

import (
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/plugins/timeout"
)

func TestClientSetConfig(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r core.Registry
		plugin := core.Must(timeout.NewAttempt(timeout.Config{Name: "api", Registry: &r, Limit: time.Second}))
		rt := plugin.Transport(after(5*time.Second, ""))
		end := func() time.Duration {
			start := time.Now()
			_, err := get(t, t.Context(), rt)
			require.ErrorIs(t, err, timeout.ErrTimeout)
			return time.Since(start)
		}
		require.Equal(t, time.Second, end())
		require.NoError(t, plugin.SetConfig(timeout.Config{Limit: 2 * time.Second, CutBody: true}), "it may be one that others share")
		require.Equal(t, 2*time.Second, end())
		cfg := plugin.Config()
		require.Equal(t, "api", cfg.Name)
		require.Same(t, &r, cfg.Registry)
		require.True(t, cfg.CutBody)

		for want, bad := range map[string]timeout.Config{
			"timeout.Config.Name = other: must stay api":                           {Name: "other"},
			"timeout.Config.Registry = another one: must stay the same":            {Registry: &core.Registry{}},
			"timeout.Config.CutBody = true: must be false when HeadersOnly is set": {CutBody: true, HeadersOnly: true},
		} {
			require.EqualError(t, plugin.SetConfig(bad), want)
		}
		require.Equal(t, 2*time.Second, end(), "the old one is kept")

		require.NoError(t, plugin.SetConfig(timeout.Config{Limit: 3 * time.Second}))
		require.Equal(t, 3*time.Second, end())
		require.Equal(t, timeout.Config{Name: "api", Registry: &r, Limit: 3 * time.Second}, plugin.Config())
		require.InDelta(t, 3, limitOf(&r, "api"), 0)
		has, _ := core.Lookup[*timeout.Client](&r, "api")
		require.Same(t, plugin, has)
		require.NoError(t, plugin.SetConfig(timeout.Config{}))
		require.Zero(t, plugin.Config().Limit, "as it was given")
		require.InDelta(t, 10, limitOf(&r, "api"), 0, "the default of an attempt")
		resp, err := get(t, t.Context(), rt)
		require.NoError(t, err, "10 seconds, the default of an attempt")
		require.NoError(t, resp.Body.Close())
		require.EqualValues(t, 4, plugin.Stats().TimedOut)
		require.NoError(t, plugin.Close())
		_, ok := core.Lookup[*timeout.Client](&r, "api")
		require.False(t, ok)
	})
}

func TestServerSetConfig(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r core.Registry
		plugin := core.Must(timeout.NewServer(timeout.ServerConfig{Name: "api", Registry: &r, Limit: time.Second}))
		end := func(status int) time.Duration {
			start := time.Now()
			require.Equal(t, status, handle(t, plugin, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }).Code)
			return time.Since(start)
		}
		require.Equal(t, time.Second, end(http.StatusServiceUnavailable))
		require.NoError(t, plugin.SetConfig(timeout.ServerConfig{Limit: 2 * time.Second, MaxBuffer: 7}))
		require.Equal(t, 2*time.Second, end(http.StatusServiceUnavailable))
		require.Equal(t, timeout.ServerConfig{Name: "api", Registry: &r, Limit: 2 * time.Second, MaxBuffer: 7}, plugin.Config())
		for want, bad := range map[string]timeout.ServerConfig{
			"timeout.ServerConfig.Name = other: must stay api":                  {Name: "other"},
			"timeout.ServerConfig.Registry = another one: must stay the same":   {Registry: &core.Registry{}},
			"timeout.ServerConfig.MaxBuffer = -1: must be >= 0 (0 means 65536)": {MaxBuffer: -1},
		} {
			require.EqualError(t, plugin.SetConfig(bad), want)
		}
		require.NoError(t, plugin.SetConfig(timeout.ServerConfig{Limit: 3 * time.Second}))
		require.Equal(t, 3*time.Second, end(http.StatusServiceUnavailable), "the defaults of a ServerConfig")
		require.InDelta(t, 3, limitOf(&r, "api"), 0)
	})
}

// A request has the limit and the rest of one and the same Config.
func TestSetConfigUnderConcurrentUse(t *testing.T) {
	t.Parallel()
	plugin := core.Must(timeout.NewServer(timeout.ServerConfig{Limit: -1}))
	configs := []timeout.ServerConfig{{Limit: -1, MaxBuffer: 1}, {Limit: -2, MaxBuffer: 2}, {Limit: -3, MaxBuffer: 3}}
	require.NoError(t, plugin.SetConfig(configs[0]))
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for n := range 500 {
				if err := plugin.SetConfig(configs[n%3]); err != nil {
					t.Error(err)
				}
				if c := plugin.Config(); c.MaxBuffer != -int(c.Limit) {
					t.Error(c.Limit, c.MaxBuffer)
				}
			}
		})
	}
	wg.Wait()
	require.Equal(t, configs[1], plugin.Config())
}
