package ratelimit_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/stretchr/testify/require"

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
		{"POST", "/export/", `"api";q=3;w=3600`},
		{"POST", "//export", `"POST /export";q=2;w=3600`},
		{"POST", "/x/../export", `"POST /export";q=2;w=3600`},
		{"GET", "/users/7", `"/users/{id}";q=1;w=3600`},
		{"GET", "/users/me", `"GET /users/me";q=4;w=3600`},
		{"HEAD", "/users/me", `"GET /users/me";q=4;w=3600`},
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
