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
func TestRoutes_InPlaceOfTheGlobalLimit(t *testing.T) {
	t.Parallel()
	s := serve(t, ratelimit.ServerConfig{
		Name: "api", Limit: ratelimit.PerHour(3), Headers: ratelimit.HeaderDraft10,
		Routes: []ratelimit.Route{
			{Pattern: "POST /export", Limit: ratelimit.PerHour(2)},
			{Pattern: "/users/{id}", Limit: ratelimit.PerHour(1)},
			{Pattern: "GET /users/me", Limit: ratelimit.PerHour(4)},
			{Pattern: "/tree/", Limit: ratelimit.PerHour(5)},
			{Pattern: "api.example.com/", Limit: ratelimit.PerHour(6)},
		},
	})
	r := chi.NewRouter()
	r.Use(s.plugin.Handler)
	r.Handle("/*", s.handler())
	for _, tt := range []struct {
		method, target, policy string
	}{
		{"GET", "/", `"api";q=3;w=3600`},
		{"POST", "/export", `"POST /export";q=2;w=3600`},
		{"GET", "/export", `"api";q=3;w=3600`},
		{"POST", "/export/", `"POST /export";q=2;w=3600, "api";q=3;w=3600`},
		{"POST", "/tree/../export", `"POST /export";q=2;w=3600, "/tree/";q=5;w=3600`},
		{"post", "/export", `"POST /export";q=2;w=3600`},
		{"POST", "//export", `"POST /export";q=2;w=3600, "api";q=3;w=3600`},
		{"POST", "/x/../export", `"POST /export";q=2;w=3600, "api";q=3;w=3600`},
		{"GET", "/users/7", `"/users/{id}";q=1;w=3600`},
		{"GET", "/users/me", `"GET /users/me";q=4;w=3600`},
		{"HEAD", "/users/me", `"/users/{id}";q=1;w=3600, "GET /users/me";q=4;w=3600`}, // chi has no HEAD for a GET
		{"HEAD", "/tree/a", `"/tree/";q=5;w=3600`},
		{"PUT", "/users/me", `"/users/{id}";q=1;w=3600`},
		{"GET", "/tree/a/b", `"/tree/";q=5;w=3600`},
		{"GET", "/tree", `"/tree/";q=5;w=3600`},
		{"GET", "http://api.example.com/any", `"api.example.com/";q=6;w=3600`},
		{"GET", "http://api.example.com:8080/any", `"api.example.com/";q=6;w=3600`},
		{"OPTIONS", "*", `"api";q=3;w=3600`},
		{"CONNECT", "example.com:443", `"api";q=3;w=3600`},
	} {
		w := httptest.NewRecorder()
		req := httptest.NewRequest(tt.method, tt.target, http.NoBody)
		s.plugin.Handler(s.handler()).ServeHTTP(w, req)
		require.Equal(t, tt.policy, w.Header().Get("RateLimit-Policy"), "%s %s", tt.method, tt.target)
	}
	other := func(method, target string) int {
		req := request(method, target)
		req.RemoteAddr = "198.51.100.1:1"
		return do(r, req).Code
	}
	require.Equal(t, 200, other("POST", "/export"))
	require.Equal(t, 200, other("POST", "/export"))
	require.Equal(t, 429, other("POST", "/export"))
	require.Equal(t, 429, other("POST", "//export"), "another spelling is the same route")
	for range 3 {
		require.Equal(t, 200, other("GET", "/"), "the global limit was not touched")
	}
	require.Equal(t, 429, other("GET", "/"))
	require.Equal(t, 200, other("GET", "/users/1"))
	require.Equal(t, 429, other("GET", "/users/2"), "one route, whatever the id")
	require.Equal(t, 200, other("GET", "/users/me"))
}

func TestRoutes_WeightOnlySharesTheGlobalPermits(t *testing.T) {
	t.Parallel()
	s := serve(t, ratelimit.ServerConfig{
		Limit: ratelimit.PerHour(10),
		Routes: []ratelimit.Route{
			{Pattern: "POST /upload", Weight: func(r *http.Request) (int64, error) { return r.ContentLength, nil }},
			{Pattern: "POST /import", Limit: ratelimit.PerHour(3)},
		},
		Weight: func(*http.Request) (int64, error) { return 2, nil },
	})
	upload := request(http.MethodPost, "/upload")
	upload.ContentLength = 7
	require.Equal(t, 200, do(s, upload).Code)
	require.Equal(t, 200, fetch(s, "/").Code)
	require.Equal(t, 429, fetch(s, "/").Code, "7 + 2, one is left")
	require.Equal(t, 200, do(s, request(http.MethodPost, "/import")).Code)
	require.Equal(t, 429, do(s, request(http.MethodPost, "/import")).Code, "the weight of the config: 2 of 3")
}

func TestRoutes_SeparateUnderOneKey(t *testing.T) {
	t.Parallel()
	s := serve(t, ratelimit.ServerConfig{
		Limit: ratelimit.PerHour(1),
		Routes: []ratelimit.Route{
			{Pattern: "/a", Limit: ratelimit.PerHour(1)},
			{Pattern: "/b", Limit: ratelimit.PerHour(1)},
			{Pattern: "/", Limit: ratelimit.PerHour(2)},
		},
	})
	for _, path := range []string{"/a", "/b", "/c", "/c"} {
		require.Equal(t, 200, fetch(s, path).Code, path)
	}
	for _, path := range []string{"/a", "/b", "/c"} {
		require.Equal(t, 429, fetch(s, path).Code, path)
	}
}

// Patterns that could never match, as one writes them for chi.
func TestRoutes_PatternsOfChi(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string]string{
		"/api/files/*": "must not have a *, which is no wildcard in a pattern of net/http: write {rest...}",
		"get /b":       "must have its method as it is sent, as in POST",
	} {
		_, err := ratelimit.NewServer(ratelimit.ServerConfig{Routes: []ratelimit.Route{{Pattern: pattern, Limit: ratelimit.PerHour(1)}}})
		require.ErrorContains(t, err, want)
	}
}

type wrapper = func(http.Handler) http.Handler

// Whatever the router and the path middleware, and wherever the limiter is: a request that
// reaches the handler of a route is charged to the route.
func TestRoutes_EverySpelling(t *testing.T) {
	t.Parallel()
	limiter := core.Must(ratelimit.NewServer(ratelimit.ServerConfig{
		Limit: ratelimit.PerHour(1e9), Headers: ratelimit.HeaderDraft10,
		Routes: []ratelimit.Route{
			{Pattern: "POST /api/login", Limit: ratelimit.PerHour(1e6)},
			{Pattern: "GET /api/items/{id}/all", Limit: ratelimit.PerHour(1e6)},
			{Pattern: "GET /api/files/", Limit: ratelimit.PerHour(1e6)},
			{Pattern: "/api/health", Limit: ratelimit.PerHour(1e11)}, // no way around the others
			{Pattern: "/api/{any...}", Limit: ratelimit.PerHour(1e11)},
		},
	}))
	defer func() { _ = limiter.Close() }()
	reached := map[string]int{} // a control
	handler := func(pattern string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			policy := w.Header().Get("RateLimit-Policy")
			if !strings.Contains(policy, `"`+pattern+`";`) {
				t.Errorf("%s %s: %s is charged to %s", r.Method, r.RequestURI, pattern, policy)
			}
			w.Header().Set("Reached", pattern)
		}
	}
	login, items, files := handler("POST /api/login"), handler("GET /api/items/{id}/all"), handler("GET /api/files/")
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
	limiter := core.Must(ratelimit.NewServer(ratelimit.ServerConfig{Routes: []ratelimit.Route{{Pattern: "DELETE /login", Limit: ratelimit.PerHour(1)}}}))
	defer func() { _ = limiter.Close() }()
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

// What is charged for a path that can be of several routes.
func TestRoutes_SeveralPrices(t *testing.T) {
	t.Parallel()
	s := serve(t, ratelimit.ServerConfig{
		Limit: ratelimit.PerHour(3), Headers: ratelimit.HeaderDraft10,
		Routes: []ratelimit.Route{
			{Pattern: "/many", Limit: ratelimit.PerHour(100)},
			{Pattern: "/heavy", Limit: ratelimit.PerHour(100), Weight: func(*http.Request) (int64, error) { return 50, nil }},
			{Pattern: "/light", Weight: func(*http.Request) (int64, error) { return 0, nil }},
			{Pattern: "/broken", Weight: func(*http.Request) (int64, error) { return 0, errDown }},
		},
	})
	for _, tt := range []struct {
		target, limits string
		code           int
	}{
		{"/many", `"/many";r=99;t=3600`, 200},
		{"/many/", `"default";r=2;t=3600, "/many";r=98;t=3600`, 200},
		{"/heavy/", `"/heavy";r=50;t=3600`, 200}, // the general limit is another cost
		{"/light", `"default";r=2;t=3600`, 200},
		{"/light/", `"default";r=1;t=3600`, 200},
		{"/broken/", "", 500},
		{"/many/", `"default";r=0;t=3600, "/many";r=97;t=3600`, 200},
		{"/many/", `"default";r=0;t=3600, "/many";r=97;t=3600`, 429},
		{"/many", `"/many";r=96;t=3600`, 200},
	} {
		w := fetch(s, tt.target)
		require.Equal(t, tt.code, w.Code, tt.target)
		require.Equal(t, tt.limits, w.Header().Get("RateLimit"), tt.target)
	}
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
