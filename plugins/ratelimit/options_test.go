package ratelimit_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/plugins/ratelimit"
	"github.com/gresil/gresil/server"
)

func TestNewServer_Errors(t *testing.T) {
	t.Parallel()
	routes := func(patterns ...string) (o ratelimit.ServerOptions) {
		for _, p := range patterns {
			o.Routes = append(o.Routes, ratelimit.Route{Pattern: p})
		}
		return o
	}
	for name, tt := range map[string]struct {
		opts ratelimit.ServerOptions
		want []string
	}{
		"none":          {routes("/a", "POST /a", "/", "h/a", "/a/{x}"), nil},
		"empty pattern": {routes(""), []string{`ratelimit.ServerOptions.Routes[0].Pattern = "": must be a pattern of net/http`}},
		"bad patterns":  {routes("/a", "POST /{x", "export"), []string{`Routes[1].Pattern = "POST /{x": must be a pattern of net/http: at offset 6`, `Routes[2].Pattern = "export"`}},
		"of chi":        {routes("/api/files/*", "get /b"), []string{"must not have a *, which is no wildcard in a pattern of net/http: write {rest...}", "must have its method as it is sent, as in POST"}},
		"twice":         {routes("/a", "/a", "API.test/", "api.test/"), []string{`Routes[1].Pattern = "/a": must not conflict with pattern 0, "/a"`, `Routes[2].Pattern = "API.test/": must have its host in lower case`}},
		"conflict":      {routes("/a/{x}", "/b", "/{y}/b"), []string{`Routes[2].Pattern = "/{y}/b": must not conflict with pattern 0, "/a/{x}"`}},
		"unknown names": {
			ratelimit.ServerOptions{Routes: []ratelimit.Route{{Pattern: "/a", Limit: "x"}, {Pattern: "/b", Limit: "known"}}, Layers: []ratelimit.Layer{{}, {Limit: "known"}}},
			[]string{`ratelimit.ServerOptions.Routes[0].Limit = "x": must be a name in Config.Limits`, `ratelimit.ServerOptions.Layers[0].Limit = "": must be a name`},
		},
		"layer twice": {
			ratelimit.ServerOptions{Layers: []ratelimit.Layer{{Limit: "known"}, {Limit: "known", Key: server.ClientIP}}},
			[]string{`Layers[1].Limit = "known": must not be that of another Layer`},
		},
		"name": {ratelimit.ServerOptions{RateLimit: true}, []string{`ratelimit.ServerOptions.RateLimit = true: must be false for a limiter whose name is not printable ASCII, "na\u00efve"`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limits := core.Must(ratelimit.New(ratelimit.Config{Name: "naïve", Limits: map[string]ratelimit.Limit{"known": ratelimit.PerHour(1)}}))
			_, err := ratelimit.NewServer(limits, tt.opts)
			if tt.want == nil {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, core.ErrConfig)
			for _, want := range tt.want {
				require.ErrorContains(t, err, want)
			}
			require.Len(t, strings.Split(err.Error(), "\n"), len(tt.want), err.Error())
			require.NotContains(t, err.Error(), ".go:")
		})
	}
}

// A handler of the options that is used by every request does not read what the caller changes later.
func TestNewServer_CopiesSlices(t *testing.T) {
	t.Parallel()
	opts := ratelimit.ServerOptions{Layers: []ratelimit.Layer{{Limit: "all"}}, Routes: []ratelimit.Route{{Pattern: "/a", Limit: "all"}}}
	s := serve(t, ratelimit.Config{Limits: map[string]ratelimit.Limit{"all": ratelimit.PerHour(1)}}, opts)
	opts.Layers[0].Key, opts.Routes[0].Limit = func(*http.Request) (string, bool) { return "", false }, ""
	require.Equal(t, 200, fetch(s, "/").Code)
	require.Equal(t, 429, fetch(s, "/").Code)
	require.Equal(t, 429, fetch(s, "/a").Code)
}
