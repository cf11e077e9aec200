package ratelimit_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"
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

// In the root Use of chi, which runs before routing.
func TestRoutes_Instead(t *testing.T) {
	t.Parallel()
	cfg := ratelimit.Config{Name: "api", Limit: ratelimit.PerHour(3), Limits: map[string]ratelimit.Limit{}}
	opts := ratelimit.ServerOptions{RateLimit: true}
	for i, r := range []ratelimit.Route{
		{Pattern: "POST /export", Limit: "export"},
		{Pattern: "/users/{id}", Limit: "user"},
		{Pattern: "GET /users/me", Limit: "me"},
		{Pattern: "/tree/", Limit: "tree"},
		{Pattern: "api.example.com/", Limit: "host"},
		{Pattern: "/v1.0", Limit: "version"},
		{Pattern: "GET /app.js", Limit: "app"},
		{Pattern: "/users/list/", Limit: "list"},
		{Pattern: "CONNECT /{$}", Limit: "connect"},
	} {
		opts.Routes = append(opts.Routes, r)
		cfg.Limits[r.Limit] = ratelimit.PerHour(int64(1 + i))
	}
	s := serve(t, cfg, opts)
	r := chi.NewRouter()
	r.Use(s.plugin.Handler)
	r.Handle("/*", s.handler())
	const others, export, user, me, tree, host = `"api";q=3;w=3600`, `"export";q=1;w=3600`, `"user";q=2;w=3600`, `"me";q=3;w=3600`, `"tree";q=4;w=3600`, `"host";q=5;w=3600`
	for _, tt := range []struct {
		method, target string
		policies       []string
	}{
		{"GET", "/", []string{others}},
		{"POST", "/export", []string{export}},
		{"GET", "/export", []string{others}},
		{"POST", "/export/", []string{others, export}},
		{"POST", "/tree/../export", []string{export, tree}},
		{"POST", "//export", []string{export, others}},
		{"POST", "/x/../export", []string{export, others}},
		{"POST", "/export.json/", []string{others, export}},
		{"POST", "/%65xport", []string{export, others}},
		{"GET", "/users/7", []string{user}},
		{"GET", "/users/me", []string{me}},
		{"HEAD", "/users/me", []string{me, user}}, // chi takes no HEAD for a GET
		{"HEAD", "/tree/a", []string{tree}},
		{"PUT", "/users/me", []string{user}},
		{"GET", "/users/list", []string{user, `"list";q=8;w=3600`}}, // chi mounts a router for both
		{"GET", "/tree/a/b", []string{tree}},
		{"GET", "/tree", []string{tree, others}}, // a mux redirects it
		{"GET", "/v1.0/", []string{others, `"version";q=6;w=3600`}},
		{"GET", "/app.js", []string{`"app";q=7;w=3600`}},
		{"GET", "/other.js", []string{others}},
		{"GET", "http://api.example.com/any", []string{host}},
		{"GET", "http://api.example.com:8080/any", []string{host}},
		{"GET", "http://API.Example.com:8080/any", []string{host, others}}, // a mux takes it for another host
		{"GET", "http://api.example.com.:80/any", []string{host, others}},
		{"POST", "http://api.example.com./export", []string{host, export}},
		{"GET", "/users/../me", []string{others, me}}, // CleanPath below a prefix
		{"GET", "/users/x/../../me", []string{others, me}},
		{"OPTIONS", "*", []string{others}},
		{"CONNECT", "example.com:443", []string{others, `"connect";q=9;w=3600`}}, // for chi it is one of /
	} {
		w := do(s.plugin.Handler(s.handler()), httptest.NewRequest(tt.method, tt.target, http.NoBody))
		require.Equal(t, strings.Join(tt.policies, ", "), w.Header().Get("RateLimit-Policy"), "%s %s", tt.method, tt.target)
		for _, key := range []string{"192.0.2.1", "#limit:export:192.0.2.1", "#limit:user:192.0.2.1", "#limit:me:192.0.2.1"} {
			require.NoError(t, s.limits.Reset(t.Context(), key))
		}
	}
	get := func(method, target string) int { return do(r, request(method, target)).Code }
	require.Equal(t, 200, get("POST", "/export"))
	require.Equal(t, 429, get("POST", "/export"))
	require.Equal(t, 429, get("POST", "//export"), "another spelling is the same route")
	require.EqualValues(t, 3, s.left(t, ip), "the limit of all others was not touched")
	require.Equal(t, 200, get("GET", "/users/1"))
	require.Equal(t, 200, get("GET", "/users/2"))
	require.Equal(t, 429, get("GET", "/users/3"), "one route, whatever the id")
	require.Equal(t, 200, get("GET", "/users/me"))
}

func TestRoutes_WeightOnly(t *testing.T) {
	t.Parallel()
	s := serve(t, ratelimit.Config{Limit: ratelimit.PerHour(10), Limits: map[string]ratelimit.Limit{"import": ratelimit.PerHour(3)}}, ratelimit.ServerOptions{
		Routes: []ratelimit.Route{
			{Pattern: "POST /upload", Weight: func(r *http.Request) (int64, error) { return r.ContentLength, nil }},
			{Pattern: "POST /import", Limit: "import"},
		},
		Weight: func(*http.Request) (int64, error) { return 2, nil },
	})
	upload := request(http.MethodPost, "/upload/") // also of no route: the same permits, and the higher cost
	upload.ContentLength = 7
	require.Equal(t, 200, do(s, upload).Code)
	require.EqualValues(t, 3, s.left(t, ip))
	require.Equal(t, 200, fetch(s, "/").Code)
	require.Equal(t, 429, fetch(s, "/").Code, "7 + 2, one is left")
	require.Equal(t, 200, do(s, request(http.MethodPost, "/import")).Code)
	require.Equal(t, 429, do(s, request(http.MethodPost, "/import")).Code, "the weight of the options: 2 of 3")
}

func TestRoutes_Root(t *testing.T) {
	t.Parallel()
	s := serve(t, ratelimit.Config{Limit: ratelimit.PerHour(1), Limits: map[string]ratelimit.Limit{"a": ratelimit.PerHour(1), "b": ratelimit.PerHour(1), "root": ratelimit.PerHour(2)}},
		ratelimit.ServerOptions{Routes: []ratelimit.Route{{Pattern: "/a", Limit: "a"}, {Pattern: "/b", Limit: "b"}, {Pattern: "/", Limit: "root"}}})
	for _, target := range []string{"/a", "/b", "/c", "/c"} {
		require.Equal(t, 200, fetch(s, target).Code, target)
	}
	for _, target := range []string{"/a", "/b", "/c"} {
		require.Equal(t, 429, fetch(s, target).Code, target)
	}
	require.EqualValues(t, 1, s.left(t, ip))
}

// A middleware of the user's own that says where and as what chi routes the request.
func TestRoutes_RouteContext(t *testing.T) {
	t.Parallel()
	limits := core.Must(ratelimit.New(ratelimit.Config{Limits: map[string]ratelimit.Limit{"login": ratelimit.PerHour(1)}}))
	limiter := core.Must(ratelimit.NewServer(limits, ratelimit.ServerOptions{Routes: []ratelimit.Route{{Pattern: "DELETE /login", Limit: "login"}}}))
	r := chi.NewRouter()
	r.Use(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			routing := chi.RouteContext(r.Context())
			routing.RoutePath, routing.RouteMethod = strings.ToLower(r.URL.Path), r.Header.Get("X-HTTP-Method-Override")
			next.ServeHTTP(w, r)
		})
	}, limiter.Handler)
	r.Delete("/login", func(http.ResponseWriter, *http.Request) {})
	for _, code := range []int{200, 429} {
		require.Equal(t, code, do(r, request("POST", "/LOGIN", "X-HTTP-Method-Override", "DELETE")).Code)
	}
}
