package timeout_test

import (
	"net/http"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	coretimeout "github.com/gresil/gresil/core/timeout"
	"github.com/gresil/gresil/internal/registry"
	"github.com/gresil/gresil/plugins/timeout"
	"github.com/gresil/gresil/server"
)

var (
	_ client.Plugin = (*timeout.Client)(nil)
	_ server.Plugin = (*timeout.Server)(nil)
)

func TestNoFieldOfTheCoreIsForgotten(t *testing.T) {
	t.Parallel()
	for _, plugin := range []reflect.Type{reflect.TypeFor[timeout.Config](), reflect.TypeFor[timeout.ServerConfig]()} {
		inner := reflect.TypeFor[coretimeout.Config]()
		for i := range inner.NumField() {
			want := inner.Field(i)
			got, ok := plugin.FieldByName(want.Name)
			require.True(t, ok, "%v.%s", plugin, want.Name)
			require.Equal(t, want.Type, got.Type)
			require.Equal(t, i < 2, got.Index[0] < 2, "Name and Registry come first")
		}
		for i := range plugin.NumField() { // With would have to clone them
			require.NotContains(t, []reflect.Kind{reflect.Slice, reflect.Map}, plugin.Field(i).Type.Kind())
		}
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		err  error
		want []string
	}{
		{"zero", timeout.Config{}.Validate(), nil},
		{"no limit", timeout.Config{Limit: -1}.Validate(), nil},
		{"body both ways", timeout.Config{HeadersOnly: true, CutBody: true}.Validate(), []string{"timeout.Config.CutBody"}},
		{"server, zero", timeout.ServerConfig{}.Validate(), nil},
		{"server, no limit", timeout.ServerConfig{Limit: -1}.Validate(), nil},
		{"server, buffer", timeout.ServerConfig{MaxBuffer: -1}.Validate(), []string{"timeout.ServerConfig.MaxBuffer"}},
	} {
		require.Equal(t, tt.want, fields(t, tt.err), tt.name)
	}
	_, err := timeout.NewTotal(timeout.Config{HeadersOnly: true, CutBody: true})
	require.EqualError(t, err, "timeout.Config.CutBody = true: must be false when HeadersOnly is set")
	_, err = timeout.NewAttempt(timeout.Config{HeadersOnly: true, CutBody: true})
	require.ErrorIs(t, err, core.ErrConfig)
	_, err = timeout.NewServer(timeout.ServerConfig{MaxBuffer: -1})
	require.EqualError(t, err, "timeout.ServerConfig.MaxBuffer = -1: must be >= 0 (0 means 65536)")
}

// limitOf returns the limit of a plugin for metrics, in seconds, or 0.
func limitOf(r *core.Registry, name string) float64 {
	e, _ := (*registry.Registry)(r).Get("timeout", name)
	for _, f := range e.Source.Figures() {
		if f.Name == "limit_seconds" {
			return f.N
		}
	}
	return 0
}

func TestNamesPhasesAndRegistry(t *testing.T) {
	t.Parallel()
	var r core.Registry
	total := core.Must(timeout.NewTotal(timeout.Config{Registry: &r}))
	attempt := core.Must(timeout.NewAttempt(timeout.Config{Registry: &r}))
	srv := core.Must(timeout.NewServer(timeout.ServerConfig{Registry: &r}))
	limits := map[string]time.Duration{"total": 30 * time.Second, "attempt": 10 * time.Second, "server": 30 * time.Second}
	for e := range r.All() {
		require.Equal(t, "timeout", e.Kind)
		require.Equal(t, limits[e.Name].Seconds(), limitOf(&r, e.Name))
		delete(limits, e.Name)
	}
	require.Empty(t, limits, "three names")
	_, err := timeout.NewTotal(timeout.Config{Registry: &r})
	require.ErrorContains(t, err, "already registered")

	require.Equal(t, "total", total.Name())
	require.Equal(t, client.Overall, total.Phase())
	require.Equal(t, client.Attempt+10, attempt.Phase(), "just inside, for a breaker in Engine to be outside")
	require.Equal(t, server.Handling, srv.Phase())
	require.Equal(t, "Overall *timeout.Client(total) > Attempt+10 *timeout.Client(attempt) > *http.Transport",
		client.New(&http.Transport{}, attempt, total).String())
	require.Empty(t, total.Config().Name, "as it was given")
	require.Same(t, &r, srv.Config().Registry)
	for range 2 {
		require.NoError(t, total.Close())
		require.NoError(t, attempt.Close())
		require.NoError(t, srv.Close())
	}
	for e := range r.All() {
		t.Errorf("%v is still there", e)
	}
}

func TestWithChangesACopy(t *testing.T) {
	t.Parallel()
	base := timeout.Config{Limit: time.Second}
	require.Equal(t, time.Minute, with(base, func(c *timeout.Config) { c.Limit = time.Minute }).Limit)
	require.Equal(t, time.Second, base.Limit)
	handler := timeout.ServerConfig{Limit: time.Second}
	require.Equal(t, 504, with(handler, func(c *timeout.ServerConfig) { c.MaxBuffer = 504 }).MaxBuffer)
	require.Zero(t, handler.MaxBuffer)
}
