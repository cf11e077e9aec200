package ratelimit_test

import (
	"context"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	coreratelimit "github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/plugins/ratelimit"
)

func TestServerConfig_Validate(t *testing.T) {
	t.Parallel()
	limit := ratelimit.PerMinute(1)
	for name, tt := range map[string]struct {
		cfg  ratelimit.ServerConfig
		want []string
	}{
		"limit":         {ratelimit.ServerConfig{Limit: ratelimit.PerMinute(-1)}, []string{"ratelimit.ServerConfig.Limit.Permits = -1: must be 1 to"}},
		"whole limit":   {ratelimit.ServerConfig{Limit: ratelimit.Limit{Permits: -1, Period: -1, Burst: 1}}, []string{"ServerConfig.Limit.Permits = -1", "ServerConfig.Limit.Period = -1ns", "ServerConfig.Limit.Burst = 1: must be 0 for a window"}},
		"max wait":      {ratelimit.ServerConfig{MaxWait: -1}, []string{"ratelimit.ServerConfig.MaxWait = -1ns: must be >= 0 (0 does not wait)"}},
		"max keys":      {ratelimit.ServerConfig{MaxKeys: -1}, []string{"ratelimit.ServerConfig.MaxKeys = -1: must be 0 to"}},
		"keys of store": {ratelimit.ServerConfig{MaxKeys: 1, Store: brokenStore{}}, []string{"ratelimit.ServerConfig.MaxKeys = 1: must be 0 with a Store"}},
		"policy":        {ratelimit.ServerConfig{OnStoreError: 9}, []string{"ratelimit.ServerConfig.OnStoreError = FailurePolicy(9): must be Allow or Deny"}},
		"style":         {ratelimit.ServerConfig{Headers: 8}, []string{"ratelimit.ServerConfig.Headers = HeaderStyle(8): must be made of HeaderDraft10"}},
		"both resets":   {ratelimit.ServerConfig{Headers: ratelimit.HeaderXRateLimit | ratelimit.HeaderXRateLimitDelta}, []string{"ratelimit.ServerConfig.Headers = x+x-delta: must not have both"}},
		"name":          {ratelimit.ServerConfig{Name: "ü", Headers: ratelimit.HeaderDraft10}, []string{`ratelimit.ServerConfig.Name = "ü": must be printable ASCII`}},
		"empty pattern": {ratelimit.ServerConfig{Routes: []ratelimit.Route{{Limit: limit}}}, []string{`ratelimit.ServerConfig.Routes[0].Pattern = "": must be a pattern of net/http`}},
		"bad pattern":   {ratelimit.ServerConfig{Routes: []ratelimit.Route{{Pattern: "/a"}, {Pattern: "POST /{x"}}}, []string{`Routes[1].Pattern = "POST /{x": must be a pattern of net/http: at offset 6`}},
		"no path":       {ratelimit.ServerConfig{Routes: []ratelimit.Route{{Pattern: "export"}}}, []string{`Routes[0].Pattern = "export": must be a pattern of net/http`}},
		"twice":         {ratelimit.ServerConfig{Routes: []ratelimit.Route{{Pattern: "/a"}, {Pattern: "/a"}}}, []string{`Routes[1].Pattern = "/a": must not conflict with Routes[0], "/a"`}},
		"conflict":      {ratelimit.ServerConfig{Routes: []ratelimit.Route{{Pattern: "/a/{x}"}, {Pattern: "/b"}, {Pattern: "/{y}/b"}}}, []string{`Routes[2].Pattern = "/{y}/b": must not conflict with Routes[0], "/a/{x}"`}},
		"route limit":   {ratelimit.ServerConfig{Routes: []ratelimit.Route{{Pattern: "/a", Limit: ratelimit.PerHour(-7)}}}, []string{"ratelimit.ServerConfig.Routes[0].Limit.Permits = -7"}},
		"several": {
			ratelimit.ServerConfig{MaxWait: -1, OnStoreError: 9, Headers: 64, Routes: []ratelimit.Route{{Pattern: "x", Limit: ratelimit.PerHour(-7)}}},
			[]string{"ServerConfig.MaxWait", "ServerConfig.OnStoreError", "ServerConfig.Headers", "Routes[0].Pattern", "Routes[0].Limit.Permits"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := ratelimit.NewServer(tt.cfg)
			require.ErrorIs(t, err, core.ErrConfig)
			for _, want := range tt.want {
				require.ErrorContains(t, err, want)
			}
			require.Len(t, strings.Split(err.Error(), "\n"), len(tt.want), err.Error())
			require.NotContains(t, err.Error(), ".go:")
		})
	}
	require.NoError(t, ratelimit.ServerConfig{}.Validate())
}

func TestServerConfig_WithLeavesTheBaseAlone(t *testing.T) {
	t.Parallel()
	base := ratelimit.ServerConfig{Name: "base", Routes: []ratelimit.Route{{Pattern: "/a"}}}
	derived := base.With(func(c *ratelimit.ServerConfig) { c.Name, c.Routes[0].Pattern = "derived", "/b" })
	require.Equal(t, "base", base.Name)
	require.Equal(t, "/a", base.Routes[0].Pattern)
	require.Equal(t, "/b", derived.Routes[0].Pattern)

	s := serve(t, base)
	base.Routes[0].Pattern = "/c"
	s.plugin.Config().Routes[0].Pattern = "/d"
	require.Equal(t, "/a", s.plugin.Config().Routes[0].Pattern)
}

// Every field of the core's Config is here under the same name, and gets there.
func TestServerConfig_HasEveryFieldOfTheCore(t *testing.T) {
	t.Parallel()
	hook := func(context.Context, ratelimit.Info) {}
	cfg := ratelimit.ServerConfig{
		Name: "n", Registry: &core.Registry{}, Limit: ratelimit.PerHour(3), MaxWait: time.Second, MaxQueue: 5, Order: ratelimit.NewestFirst, MaxKeys: 77, OnStoreError: ratelimit.Deny,
		Hooks: ratelimit.Hooks{Allowed: hook},
	}
	withStore := cfg
	withStore.MaxKeys, withStore.Store, withStore.Registry = 0, brokenStore{}, nil
	withStore.MaxQueue, withStore.Order = 0, 0
	got := reflect.ValueOf(serve(t, cfg).plugin.Limiter().Config())
	gotStore := reflect.ValueOf(serve(t, withStore).plugin.Limiter().Config())
	here := reflect.TypeFor[ratelimit.ServerConfig]()
	for i := range got.NumField() {
		field := got.Type().Field(i)
		same, ok := here.FieldByName(field.Name)
		require.True(t, ok, field.Name)
		require.Equal(t, field.Type, same.Type, field.Name)
		require.False(t, got.Field(i).IsZero() && gotStore.Field(i).IsZero(), "%s does not reach the core, or this test does not set it", field.Name)
	}
	require.Equal(t, cfg.Limit, got.Interface().(coreratelimit.Config).Limit)
}

func TestServerConfig_ABadConfigIsAnError(t *testing.T) {
	t.Parallel()
	s, err := ratelimit.NewServer(ratelimit.ServerConfig{Limit: ratelimit.PerMinute(-1)})
	require.Error(t, err)
	require.Nil(t, s)
	_, err = serve(t, ratelimit.ServerConfig{}).plugin.With(func(c *ratelimit.ServerConfig) { c.MaxWait = -1 })
	require.ErrorIs(t, err, core.ErrConfig)
}
