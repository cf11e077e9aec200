package ratelimit_test

import (
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
		"limit":         {ratelimit.ServerConfig{Limit: ratelimit.PerMinute(-1)}, []string{"ratelimit.ServerConfig.Limit = -1/1m: must have 1 to"}},
		"max wait":      {ratelimit.ServerConfig{MaxWait: -1}, []string{"ratelimit.ServerConfig.MaxWait = -1ns: must be >= 0 (0 does not wait)"}},
		"max keys":      {ratelimit.ServerConfig{MaxKeys: -1}, []string{"ratelimit.ServerConfig.MaxKeys = -1: must be 0 to"}},
		"keys of store": {ratelimit.ServerConfig{MaxKeys: 1, Store: brokenStore{}}, []string{"ratelimit.ServerConfig.MaxKeys = 1: must be 0 with a Store"}},
		"policy":        {ratelimit.ServerConfig{OnStoreError: "no"}, []string{"ratelimit.ServerConfig.OnStoreError = no: must be allow, deny or local"}},
		"style":         {ratelimit.ServerConfig{Headers: 8}, []string{"ratelimit.ServerConfig.Headers = HeaderStyle(8): must be made of HeaderDraft10"}},
		"no wait":       {ratelimit.ServerConfig{MaxQueue: 5}, []string{"ratelimit.ServerConfig.MaxQueue = 5: must be 0 without MaxWait"}},
		"nameless":      {ratelimit.ServerConfig{Layers: []ratelimit.Layer{{}}}, []string{`ratelimit.ServerConfig.Layers[0].Name = "": must be given`}},
		"layer twice":   {ratelimit.ServerConfig{Layers: []ratelimit.Layer{{Name: "a"}, {Name: "b"}, {Name: "a"}}}, []string{`ratelimit.ServerConfig.Layers[2].Name = "a": must not be the name of Layers[0]`}},
		"own name":      {ratelimit.ServerConfig{Name: "api", Layers: []ratelimit.Layer{{Name: "api"}}}, []string{`ratelimit.ServerConfig.Layers[0].Name = "api": must not be the name of the plugin`}},
		"default name":  {ratelimit.ServerConfig{Layers: []ratelimit.Layer{{Name: "default"}}}, []string{`ratelimit.ServerConfig.Layers[0].Name = "default": must not be the name of the plugin`}},
		"derived name":  {ratelimit.ServerConfig{Name: "api", Limit: ratelimit.PerSecond(1).And(limit), Layers: []ratelimit.Layer{{Name: "api-1m"}}}, []string{`ratelimit.ServerConfig.Layers[0].Name = "api-1m": must not be the name of the plugin`}},
		"route's name":  {ratelimit.ServerConfig{Routes: []ratelimit.Route{{Pattern: "/a"}}, Layers: []ratelimit.Layer{{Name: "/a"}}}, []string{`ratelimit.ServerConfig.Layers[0].Name = "/a": must not be the name of Routes[0]`}},
		"layer's name":  {ratelimit.ServerConfig{Headers: ratelimit.HeaderDraft10, Layers: []ratelimit.Layer{{Name: "é"}}}, []string{`ratelimit.ServerConfig.Layers[0].Name = "é": must be printable ASCII`}},
		"layer's limit": {ratelimit.ServerConfig{Layers: []ratelimit.Layer{{Name: "a"}, {Name: "b", Limit: ratelimit.PerHour(-7)}}}, []string{"ratelimit.ServerConfig.Layers[1].Limit = -7/1h"}},
		"name":          {ratelimit.ServerConfig{Name: "ü", Headers: ratelimit.HeaderDraft10}, []string{`ratelimit.ServerConfig.Name = "ü": must be printable ASCII`}},
		"empty pattern": {ratelimit.ServerConfig{Routes: []ratelimit.Route{{Limit: limit}}}, []string{`ratelimit.ServerConfig.Routes[0].Pattern = "": must be a pattern of net/http`}},
		"bad pattern":   {ratelimit.ServerConfig{Routes: []ratelimit.Route{{Pattern: "/a"}, {Pattern: "POST /{x"}}}, []string{`Routes[1].Pattern = "POST /{x": must be a pattern of net/http: at offset 6`}},
		"no path":       {ratelimit.ServerConfig{Routes: []ratelimit.Route{{Pattern: "export"}}}, []string{`Routes[0].Pattern = "export": must be a pattern of net/http`}},
		"twice":         {ratelimit.ServerConfig{Routes: []ratelimit.Route{{Pattern: "/a"}, {Pattern: "/a"}}}, []string{`Routes[1].Pattern = "/a": must not conflict with pattern 0, "/a"`}},
		"conflict":      {ratelimit.ServerConfig{Routes: []ratelimit.Route{{Pattern: "/a/{x}"}, {Pattern: "/b"}, {Pattern: "/{y}/b"}}}, []string{`Routes[2].Pattern = "/{y}/b": must not conflict with pattern 0, "/a/{x}"`}},
		"route limit":   {ratelimit.ServerConfig{Routes: []ratelimit.Route{{Pattern: "/a", Limit: ratelimit.PerHour(-7)}}}, []string{"ratelimit.ServerConfig.Routes[0].Limit = -7/1h"}},
		"several": {
			ratelimit.ServerConfig{MaxWait: -1, OnStoreError: "no", Headers: 64, Routes: []ratelimit.Route{{Pattern: "x", Limit: ratelimit.PerHour(-7)}}},
			[]string{"ServerConfig.MaxWait", "ServerConfig.OnStoreError", "ServerConfig.Headers", "Routes[0].Pattern", "Routes[0].Limit = "},
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

func TestServerConfig_IsCopiedWithItsSlices(t *testing.T) {
	t.Parallel()
	base := ratelimit.ServerConfig{Name: "base", Routes: []ratelimit.Route{{Pattern: "/a"}}, Layers: []ratelimit.Layer{{Name: "x"}}}
	s := serve(t, base)
	change := func() {
		base.Routes[0].Pattern, base.Layers[0].Name = "/c", "z"
		got := s.plugin.Config()
		got.Routes[0].Pattern, got.Layers[0].Name = "/d", "w"
		require.Equal(t, []string{"/a", "x"}, []string{s.plugin.Config().Routes[0].Pattern, s.plugin.Config().Layers[0].Name})
	}
	change()
	base.Routes[0].Pattern, base.Layers[0].Name = "/a", "x"
	require.NoError(t, s.plugin.SetConfig(base))
	change()
}

// Every field of the core's Config is here under the same name, and gets there.
func TestServerConfig_HasEveryFieldOfTheCore(t *testing.T) {
	t.Parallel()
	cfg := ratelimit.ServerConfig{
		Name: "n", Registry: &core.Registry{}, Limit: ratelimit.PerHour(3), MaxWait: time.Second, MaxKeys: 77, OnStoreError: ratelimit.Deny,
		MaxQueue: 5,
	}
	withStore := cfg
	withStore.MaxKeys, withStore.Store, withStore.Registry = 0, brokenStore{}, nil
	got := reflect.ValueOf(serve(t, cfg).plugin.Limiter().Config())
	gotStore := reflect.ValueOf(serve(t, withStore).plugin.Limiter().Config())
	here := reflect.TypeFor[ratelimit.ServerConfig]()
	for i := range got.NumField() {
		field := got.Type().Field(i)
		if field.Name == "Limits" {
			continue // of the limiter only
		}
		same, ok := here.FieldByName(field.Name)
		require.True(t, ok, field.Name)
		require.Equal(t, field.Type, same.Type, field.Name)
		if field.Name == "Registry" {
			continue // it has the plugin
		}
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

func TestServerOverAClosedStoreIsAnErrorWithItsName(t *testing.T) {
	t.Parallel()
	store := core.Must(coreratelimit.NewMemory(0))
	require.NoError(t, store.Close())
	_, err := ratelimit.NewServer(ratelimit.ServerConfig{Name: "api", Store: store})
	require.EqualError(t, err, "ratelimit: api: store failed: closed")
	require.ErrorIs(t, err, coreratelimit.ErrStore)
	require.ErrorIs(t, err, core.ErrClosed)
}
