package server_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/server"
)

func TestRoute_Selects(t *testing.T) {
	t.Parallel()
	route := func(pattern string) server.Plugin { return server.Route(pattern, &plugin{pattern, server.Admission}) }
	p := core.Must(server.New(route("/"), route("POST /export"), route("GET /users/{id}"), route("/files/"), route("/files/{name}/raw"),
		route("api.example.com/"), route("/a/b"), route("/health/{$}"), route("POST /login.v2"),
		route("POST /v2.login"), route("POST /api/login"), route("POST /api/{any}"), &plugin{"all", server.Admission}))
	h := p.Handler(http.HandlerFunc(ok))
	for _, tt := range []struct{ method, target, want string }{
		{"GET", "/", "/"},
		{"GET", "/export", "/"},
		{"POST", "/export", "POST /export"},
		{"POST", "//export", "/ > POST /export"},
		{"POST", "/x/../export", "/ > POST /export"},
		{"POST", "/%65xport", "/ > POST /export"},
		{"POST", "/export/", "/ > POST /export"},
		{"POST", "/export//", "/ > POST /export"},
		{"POST", "/export.json", "/ > POST /export"},
		{"POST", "/export.json/", "/ > POST /export"},
		{"POST", "/export/more", "/"},
		{"POST", "http://example.com:8080/export", "POST /export"},
		{"GET", "/users/7", "GET /users/{id}"},
		{"HEAD", "/users/7", "/ > GET /users/{id}"},
		{"GET", "/users/a.b", "GET /users/{id}"},
		{"GET", "/files", "/ > /files/"},
		{"GET", "/files/a/b", "/files/"},
		{"GET", "/files/a/raw", "/files/{name}/raw"},
		{"GET", "/files/a/raw/", "/files/ > /files/{name}/raw"},
		{"GET", "/a%2Fb", "/ > /a/b"},
		{"GET", "/health/", "/health/{$}"},
		{"POST", "http://api.example.com/export", "api.example.com/"},
		{"GET", "http://API.example.com./users/7", "GET /users/{id} > api.example.com/"}, // a mux takes it for another host
		{"POST", "/login.v2/", "/ > POST /login.v2"},
		{"POST", "/v2.login.json", "/ > POST /v2.login"},
		{"POST", "/api/login.json", "POST /api/login > POST /api/{any}"},
		{"POST", "/api/../login", "/ > POST /api/login"},
		{"POST", "/api/x/../../login", "/ > POST /api/login"},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(tt.method, tt.target, http.NoBody))
		require.Equal(t, tt.want+" > all", strings.Join(w.Header().Values("Passed"), " > "), tt.method+" "+tt.target)
	}
}

// What chi serves by the handler of a pattern has the plugins of the Route, from outside and from inside of the router.
func TestRoute_AroundChi(t *testing.T) {
	t.Parallel()
	pipeline := core.Must(server.New(server.Route("/"), server.Route("GET /export", &plugin{"export", server.Admission})))
	for name, spelling := range map[string]func(http.Handler) http.Handler{
		"StripSlashes": middleware.StripSlashes, "CleanPath": middleware.CleanPath, "URLFormat": middleware.URLFormat,
	} {
		inside := chi.NewRouter()
		inside.Use(spelling, pipeline.Handler)
		inside.Get("/export", ok)
		plain := chi.NewRouter()
		plain.Use(spelling)
		plain.Get("/export", ok)
		for _, h := range []http.Handler{inside, pipeline.Handler(plain)} {
			for _, target := range []string{"/export", "/export/", "//export", "/./export", "/export.json"} {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, get(target))
				if w.Code == http.StatusOK {
					require.Equal(t, "export", w.Header().Get("Passed"), name+" "+target)
				}
			}
		}
	}
}

// A request that may be of two Routes passes the plugins of both in the order of their phases, and one that both have once.
func TestRoute_Several(t *testing.T) {
	t.Parallel()
	call, limit, shared := &plugin{"call", server.Handling}, &plugin{"limit", server.Admission}, &plugin{"shared", server.Monitoring}
	var again http.Handler
	h := core.Must(server.New(server.Route("/", call, shared), server.Route("/a", shared, limit), server.Route("/b", limit))).
		Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/a/" {
				r.URL.Path = "/b"
				again.ServeHTTP(w, r)
			}
		}))
	again = h
	for target, want := range map[string][]string{
		"/a": {"shared", "limit"}, "/c": {"shared", "call"}, "/b": {"limit"}, "/b/": {"shared", "limit", "call"},
		"/a/": {"shared", "limit", "call", "limit"}, // the last one for /b
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, get(target))
		require.Equal(t, want, w.Header().Values("Passed"), target)
	}
}

func TestRoute_Alone(t *testing.T) {
	t.Parallel()
	call, limit := &plugin{"call", server.Handling}, &plugin{"limit", server.Admission}
	rt := server.Route("/a", call, limit)
	require.Equal(t, server.Admission, rt.Phase())
	for target, want := range map[string][]string{"/a": {"limit", "call"}, "/b": nil} {
		w := httptest.NewRecorder()
		rt.Handler(http.HandlerFunc(ok)).ServeHTTP(w, get(target))
		require.Equal(t, want, w.Header().Values("Passed"))
	}
	require.Panics(t, func() { server.Route("/{").Handler(http.HandlerFunc(ok)) })
	require.Panics(t, func() { server.Route("/", nil).Handler(http.HandlerFunc(ok)) })
}
