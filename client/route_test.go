package client_test

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/resiltest"
)

func TestRoute_Selects(t *testing.T) {
	t.Parallel()
	route := func(pattern string) client.Plugin { return client.Route(pattern, &plugin{pattern, client.Attempt}) }
	base := resiltest.NewScript()
	tr := client.New(base, route("/"), route("POST api.example.com/search"), route("api.example.com/"), route("GET /users/{id}"), route("[::1]/"),
		&plugin{"all", client.Attempt})
	for _, tt := range []struct{ method, target, want string }{
		{"GET", "http://other.test/", "/"},
		{"GET", "http://other.test", "/"},
		{"GET", "http://other.test/users/7", "GET /users/{id}"},
		{"", "http://other.test/users/7", "GET /users/{id}"},
		{"HEAD", "http://other.test/users/7", "GET /users/{id}"},
		{"PUT", "http://other.test/users/7", "/"},
		{"POST", "https://api.example.com/search?q=1", "POST api.example.com/search"},
		{"POST", "https://api.example.com:8443/search", "POST api.example.com/search"},
		{"POST", "https://API.Example.com./search", "POST api.example.com/search"},
		{"POST", "https://api.example.com//search", "POST api.example.com/search"},
		{"POST", "https://api.example.com/search/", "api.example.com/"},
		{"GET", "http://other.test/users%2F7", "/"},
		{"GET", "http://[::1]:8080/x", "[::1]/"},
	} {
		req := core.Must(http.NewRequestWithContext(t.Context(), tt.method, tt.target, http.NoBody))
		req.Method, req.Host = tt.method, "api.example.com" // which another host can be asked for
		require.Equal(t, []string{tt.want, "all"}, passed(t, tr, base, req), tt.method+" "+tt.target)
	}
	require.Equal(t, []string{"all"}, passed(t, tr, base, &http.Request{Header: http.Header{}}), "without a URL")
	opaque := &http.Request{Header: http.Header{}, URL: &url.URL{Scheme: "http", Host: "api.example.com", Opaque: "/search"}}
	require.Equal(t, []string{"api.example.com/", "all"}, passed(t, tr, base, opaque))
}

func TestRoute_Alone(t *testing.T) {
	t.Parallel()
	rt := client.Route("a.test/", &plugin{"attempt", client.Attempt}, &plugin{"retry", client.Attempts})
	require.Equal(t, client.Attempts, rt.Phase())
	base := resiltest.NewScript()
	tr := rt.Transport(base).(*client.Transport)
	for target, want := range map[string][]string{"http://a.test/": {"retry", "attempt"}, "http://b.test/": nil} {
		require.Equal(t, want, passed(t, tr, base, core.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, target, http.NoBody))))
	}
	require.Panics(t, func() { client.Route("a.test:80/").Transport(base) })
	require.Panics(t, func() { client.Route("/", nil).Transport(base) })
}
