package routes_test

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
	"github.com/gresil/gresil/internal/routes"
	"github.com/gresil/gresil/plugins/ratelimit"
	"github.com/gresil/gresil/server"
)

type wrapper = func(http.Handler) http.Handler

// Whatever the router and the path middleware, and wherever the plugins are: a request that reaches the handler of a route has been
// charged to the route, and has passed the plugins of its server.Route.
func TestFind_EverySpelling(t *testing.T) {
	t.Parallel()
	var (
		opts  = ratelimit.ServerOptions{RateLimit: true}
		named = map[string]ratelimit.Limit{}
		parts []server.Plugin
	)
	for pattern, name := range map[string]string{
		"POST /api/login":          "login",
		"GET /api/items/{id}/all":  "items",
		"GET /api/files/":          "files",
		"/api/health":              "wide", // no way around the others
		"/api/{any...}":            "wide",
		"POST /api/v1.2/items.all": "dots",
		"POST /api/v1.2/{any}":     "wide",
	} {
		opts.Routes = append(opts.Routes, ratelimit.Route{Pattern: pattern, Limit: name})
		named[name] = ratelimit.PerHour(1e6)
		parts = append(parts, server.Route(pattern, server.Middleware(func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Add("Passed", name)
				next.ServeHTTP(w, r)
			})
		}, server.Handling)))
	}
	named["wide"] = ratelimit.PerHour(1e11)
	limiter := core.Must(ratelimit.NewServer(core.Must(ratelimit.New(ratelimit.Config{Limit: ratelimit.PerHour(1e9), Limits: named})), opts))
	limits := core.Must(server.New(append(parts, limiter)...)).Handler
	reached := map[string]int{} // a control
	handler := func(name string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			policy := w.Header().Get("RateLimit-Policy")
			if !strings.Contains(policy, `"`+name+`";`) {
				t.Errorf("%s %s: %s is charged to %s", r.Method, r.RequestURI, name, policy)
			}
			if passed := w.Header().Values("Passed"); !slices.Contains(passed, name) {
				t.Errorf("%s %s: %s passes the plugins of %v", r.Method, r.RequestURI, name, passed)
			}
			w.Header().Set("Reached", name)
		}
	}
	login, items, files, dots := handler("login"), handler("items"), handler("files"), handler("dots")
	inChi := func(r chi.Router) {
		r.Post("/login", login)
		r.Get("/items/{id}/all", items)
		r.Get("/files/*", files)
		r.Post("/v1.2/items.all", dots)
	}
	inMux := func(mux *http.ServeMux, prefix string) http.Handler {
		mux.Handle("POST "+prefix+"/login", login)
		mux.Handle("GET "+prefix+"/items/{id}/all", items)
		mux.Handle("GET "+prefix+"/files/", files)
		mux.Handle("POST "+prefix+"/v1.2/items.all", dots)
		return mux
	}
	trees := map[string]func(r chi.Router, limit ...wrapper){
		"routes": func(r chi.Router, limit ...wrapper) {
			r = r.With(limit...)
			r.Post("/api/login", login)
			r.Get("/api/items/{id}/all", items)
			r.Get("/api/files/*", files)
			r.Post("/api/v1.2/items.all", dots)
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
		"a router below a prefix": func(r chi.Router, limit ...wrapper) {
			sub := chi.NewRouter()
			sub.Use(middleware.CleanPath, middleware.StripSlashes)
			sub.Group(inChi)
			r.With(limit...).Handle("/api/*", http.StripPrefix("/api", sub))
		},
	}
	places := map[string]func(build func(chi.Router, ...wrapper), paths []wrapper) http.Handler{
		"around": func(build func(chi.Router, ...wrapper), paths []wrapper) http.Handler {
			r := chi.NewRouter()
			r.Use(paths...)
			build(r)
			return limits(r)
		},
		"first": func(build func(chi.Router, ...wrapper), paths []wrapper) http.Handler {
			r := chi.NewRouter()
			r.Use(limits)
			r.Use(paths...)
			build(r)
			return r
		},
		"last": func(build func(chi.Router, ...wrapper), paths []wrapper) http.Handler {
			r := chi.NewRouter()
			r.Use(paths...)
			r.Use(limits)
			build(r)
			return r
		},
		"inner": func(build func(chi.Router, ...wrapper), paths []wrapper) http.Handler {
			r := chi.NewRouter()
			r.Use(paths...)
			build(r, limits)
			return r
		},
		"in a mux": func(build func(chi.Router, ...wrapper), paths []wrapper) http.Handler {
			r := chi.NewRouter()
			r.Use(paths...)
			build(r)
			mux := http.NewServeMux()
			mux.Handle("/", limits(r))
			return mux
		},
		"behind a prefix": func(build func(chi.Router, ...wrapper), paths []wrapper) http.Handler {
			r := chi.NewRouter()
			r.Use(paths...)
			build(r)
			return http.StripPrefix("/v1", limits(r))
		},
		"behind a rewriting": func(build func(chi.Router, ...wrapper), paths []wrapper) http.Handler {
			r := chi.NewRouter()
			r.Use(middleware.PathRewrite("/v1", ""))
			r.Use(paths...)
			r.Use(limits)
			build(r)
			return r
		},
	}
	requests := spellings(t)
	const every = 300 // of so many requests each router gets one, in turn
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
					w := httptest.NewRecorder()
					router.ServeHTTP(w, r)
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

// A refused request also pays for the search, so a long path must not be decoded for each pattern.
func TestFind_LongPathIsCheap(t *testing.T) { //nolint:paralleltest // it counts allocations
	allocations := func(patterns int) float64 {
		all := map[string]int{}
		for i := range patterns {
			all[fmt.Sprintf("/{a}/{b}/x%d", i)] = i
		}
		table := routes.New(-1, all)
		r := httptest.NewRequest(http.MethodGet, strings.Repeat("/"+strings.Repeat("%41", 1000), 2)+"/../y", http.NoBody)
		return testing.AllocsPerRun(20, func() { table.Find(r, routes.Seen{}) })
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
	for path, methods := range map[string][]string{"/api/login": {"POST"}, "/api/items/7/all": {"GET", "HEAD"}, "/api/files/a": {"GET", "HEAD"}, "/api/files": {"GET"}, "/api/v1.2/items.all": {"POST"}} {
		targets := []string{path, path[1:], "/" + path, "/x/.." + path, "/." + path, strings.ToUpper(path)}
		for _, end := range []string{"/", "//", ".json", "/.json", ".json/", ".a.b", "/.a/.b", "/.", "/x/..", "/../" + path[strings.LastIndex(path, "/")+1:], "%2F", "/%2F", "%2f/", "/%2e", "%2Ejson", "%20", "?a=/b.c", ".", "./"} {
			targets = append(targets, path+end)
		}
		for i, c := range path {
			switch {
			case c == '/' && i > 0:
				for _, slash := range []string{"//", "/./", "/x/../", "/../", "/x/../../", "%2F", "/%2F", "/%2e/", `\`} {
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
