package ratelimit_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/plugins/ratelimit"
)

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
		{"GET", "http://API.Example.com:8080/any", []string{host}},
		{"GET", "http://api.example.com.:80/any", []string{host}},
		{"OPTIONS", "*", []string{others}},
		{"CONNECT", "example.com:443", []string{others}},
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

type wrapper = func(http.Handler) http.Handler

// Whatever the router and the path middleware, and wherever the limiter is: a request that
// reaches the handler of a route is charged to the route.
func TestRoutes_EverySpelling(t *testing.T) {
	t.Parallel()
	limiter := core.Must(ratelimit.NewServer(core.Must(ratelimit.New(ratelimit.Config{
		Limit:  ratelimit.PerHour(1e9),
		Limits: map[string]ratelimit.Limit{"login": ratelimit.PerHour(1e6), "items": ratelimit.PerHour(1e6), "files": ratelimit.PerHour(1e6), "wide": ratelimit.PerHour(1e11)},
	})), ratelimit.ServerOptions{
		RateLimit: true,
		Routes: []ratelimit.Route{
			{Pattern: "POST /api/login", Limit: "login"},
			{Pattern: "GET /api/items/{id}/all", Limit: "items"},
			{Pattern: "GET /api/files/", Limit: "files"},
			{Pattern: "/api/health", Limit: "wide"}, // no way around the others
			{Pattern: "/api/{any...}", Limit: "wide"},
		},
	}))
	reached := map[string]int{} // a control
	handler := func(name string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			policy := w.Header().Get("RateLimit-Policy")
			if !strings.Contains(policy, `"`+name+`";`) {
				t.Errorf("%s %s: %s is charged to %s", r.Method, r.RequestURI, name, policy)
			}
			w.Header().Set("Reached", name)
		}
	}
	login, items, files := handler("login"), handler("items"), handler("files")
	inChi := func(r chi.Router) {
		r.Post("/login", login)
		r.Get("/items/{id}/all", items)
		r.Get("/files/*", files)
	}
	inMux := func(mux *http.ServeMux, prefix string) http.Handler {
		mux.Handle("POST "+prefix+"/login", login)
		mux.Handle("GET "+prefix+"/items/{id}/all", items)
		mux.Handle("GET "+prefix+"/files/", files)
		return mux
	}
	trees := map[string]func(r chi.Router, limit ...wrapper){
		"routes": func(r chi.Router, limit ...wrapper) {
			r = r.With(limit...)
			r.Post("/api/login", login)
			r.Get("/api/items/{id}/all", items)
			r.Get("/api/files/*", files)
		},
		"a mounted router": func(r chi.Router, limit ...wrapper) {
			sub := chi.NewRouter()
			sub.Use(limit...)
			sub.Group(inChi)
			r.Mount("/api", sub)
		},
		"a router for each": func(r chi.Router, limit ...wrapper) {
			for pattern, h := range map[string]http.HandlerFunc{"/api/login": login, "/api/items/{id}/all": items, "/api/files": files} {
				r.Route(pattern, func(r chi.Router) { r.Use(limit...); r.Use(middleware.StripSlashes); r.Handle("/", only(pattern, h)) })
			}
		},
		"a mux": func(r chi.Router, limit ...wrapper) {
			r.With(limit...).Handle("/*", inMux(http.NewServeMux(), "/api"))
		},
		"a mux below a prefix": func(r chi.Router, limit ...wrapper) {
			r.With(limit...).Handle("/api/*", http.StripPrefix("/api", inMux(http.NewServeMux(), "")))
		},
	}
	places := map[string]func(build func(chi.Router, ...wrapper), paths []wrapper) http.Handler{
		"around": func(build func(chi.Router, ...wrapper), paths []wrapper) http.Handler {
			r := chi.NewRouter()
			r.Use(paths...)
			build(r)
			return limiter.Handler(r)
		},
		"first": func(build func(chi.Router, ...wrapper), paths []wrapper) http.Handler {
			r := chi.NewRouter()
			r.Use(limiter.Handler)
			r.Use(paths...)
			build(r)
			return r
		},
		"last": func(build func(chi.Router, ...wrapper), paths []wrapper) http.Handler {
			r := chi.NewRouter()
			r.Use(paths...)
			r.Use(limiter.Handler)
			build(r)
			return r
		},
		"inner": func(build func(chi.Router, ...wrapper), paths []wrapper) http.Handler {
			r := chi.NewRouter()
			r.Use(paths...)
			build(r, limiter.Handler)
			return r
		},
		"in a mux": func(build func(chi.Router, ...wrapper), paths []wrapper) http.Handler {
			r := chi.NewRouter()
			r.Use(paths...)
			build(r)
			mux := http.NewServeMux()
			mux.Handle("/", limiter.Handler(r))
			return mux
		},
		"behind a prefix": func(build func(chi.Router, ...wrapper), paths []wrapper) http.Handler {
			r := chi.NewRouter()
			r.Use(paths...)
			build(r)
			return http.StripPrefix("/v1", limiter.Handler(r))
		},
		"behind a rewriting": func(build func(chi.Router, ...wrapper), paths []wrapper) http.Handler {
			r := chi.NewRouter()
			r.Use(middleware.PathRewrite("/v1", ""))
			r.Use(paths...)
			r.Use(limiter.Handler)
			build(r)
			return r
		},
	}
	requests := spellings(t)
	const every = 50 // of so many requests each router gets one, in turn
	turn := 0
	for treeName, tree := range trees {
		for placeName, place := range places {
			for _, paths := range chains(3) {
				router := place(tree, paths.wrappers)
				for range len(requests) / every {
					turn++
					r := requests[turn%len(requests)].Clone(t.Context())
					if strings.HasPrefix(placeName, "behind") {
						r.URL.Path = "/v1" + r.URL.Path
						if r.URL.RawPath != "" {
							r.URL.RawPath = "/v1" + r.URL.RawPath
						}
					}
					w := do(router, r)
					if w.Header().Get("Reached") != "" {
						reached[treeName]++
						reached[placeName]++
						for _, name := range paths.names {
							reached[name]++
						}
					}
					if t.Failed() {
						t.Fatalf("%s, limiter %s, %v", treeName, placeName, paths.names)
					}
				}
			}
		}
	}
	for _, name := range slices.Concat(slices.Sorted(maps.Keys(trees)), slices.Sorted(maps.Keys(places)), slices.Sorted(maps.Keys(pathMiddleware()))) {
		require.Greater(t, reached[name], 10, "%s: the handlers were hardly reached", name)
	}
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

// A refused request also pays for the search, so a long path must not be decoded for each route.
func TestRoutes_LongPathIsCheap(t *testing.T) { //nolint:paralleltest // it counts allocations
	allocations := func(routes int) float64 {
		opts := ratelimit.ServerOptions{}
		for i := range routes {
			opts.Routes = append(opts.Routes, ratelimit.Route{Pattern: fmt.Sprintf("/{a}/{b}/x%d", i)})
		}
		h := core.Must(ratelimit.NewServer(nil, opts)).Handler(http.NotFoundHandler())
		r := request("GET", strings.Repeat("/"+strings.Repeat("%41", 1000), 2)+"/y")
		return testing.AllocsPerRun(20, func() { do(h, r) })
	}
	require.InDelta(t, allocations(1), allocations(100), 10)
}

// only is h for the method of a pattern.
func only(pattern string, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if (r.Method == http.MethodPost) == (pattern == "/api/login") {
			h.ServeHTTP(w, r)
		}
	})
}

// spellings are requests that one of the routers may take for one of a route.
func spellings(t *testing.T) (all []*http.Request) {
	t.Helper()
	for path, methods := range map[string][]string{"/api/login": {"POST"}, "/api/items/7/all": {"GET", "HEAD"}, "/api/files/a": {"GET", "HEAD"}, "/api/files": {"GET"}} {
		targets := []string{path, path[1:], "/" + path, "/x/.." + path, "/." + path, strings.ToUpper(path)}
		for _, end := range []string{"/", "//", ".json", "/.json", ".json/", ".a.b", "/.a/.b", "/.", "/x/..", "/../" + path[strings.LastIndex(path, "/")+1:], "%2F", "/%2F", "%2f/", "/%2e", "%2Ejson", "%20", "?a=/b.c", ".", "./"} {
			targets = append(targets, path+end)
		}
		for i, c := range path {
			switch {
			case c == '/' && i > 0:
				for _, slash := range []string{"//", "/./", "/x/../", "%2F", "/%2F", "/%2e/", `\`} {
					targets = append(targets, path[:i]+slash+path[i+1:], path[:i]+slash+path[i+1:]+"/", path[:i]+slash+path[i+1:]+".json")
				}
			case c == 'l' || c == 'a':
				escaped := path[:i] + fmt.Sprintf("%%%x", c) + path[i+1:]
				targets = append(targets, escaped, escaped+"/", escaped+".json", "/"+escaped, escaped+"/%2e%2e/all", escaped+"%2F")
			}
		}
		targets = append(targets, "/api/files/.."+strings.TrimPrefix(path, "/api"), "/api/files/../health", "/api/files/%2e%2e/health", "/api/items//all", "/api/items//all/")
		for _, target := range targets {
			u, err := url.ParseRequestURI(target)
			if err != nil {
				continue // net/http answers it
			}
			for _, method := range methods {
				all = append(all, &http.Request{Method: method, URL: u, RequestURI: target, Host: "x", Header: http.Header{}, RemoteAddr: "192.0.2.1:1", Body: http.NoBody, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1})
			}
		}
	}
	require.Greater(t, len(all), 200)
	return all
}

func pathMiddleware() map[string]wrapper {
	return map[string]wrapper{
		"StripSlashes": middleware.StripSlashes, "RedirectSlashes": middleware.RedirectSlashes, "CleanPath": middleware.CleanPath,
		"URLFormat": middleware.URLFormat, "GetHead": middleware.GetHead,
		"Maybe": middleware.Maybe(middleware.StripSlashes, func(r *http.Request) bool { return !strings.HasSuffix(r.URL.Path, "//") }),
	}
}

// A chain is path middleware in the order of Use.
type chain struct {
	names    []string
	wrappers []wrapper
}

// chains are all of up to n different middlewares, in every order.
func chains(n int) []chain {
	all, last := []chain{{}}, []chain{{}}
	for range n {
		var longer []chain
		for _, c := range last {
			for name, w := range pathMiddleware() {
				if !slices.Contains(c.names, name) {
					longer = append(longer, chain{append(slices.Clone(c.names), name), append(slices.Clone(c.wrappers), w)})
				}
			}
		}
		all, last = append(all, longer...), longer
	}
	return all
}
