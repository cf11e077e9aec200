package server_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/server"
)

func TestHeader(t *testing.T) {
	t.Parallel()
	key := server.Header("x-api-key")
	require.Equal(t, "k1", keyOf(key, get("/", "X-API-Key", "k1")))
	require.Equal(t, "k1", keyOf(key, get("/", "X-API-Key", "k1", "X-API-Key", "k2")), "the one that Header.Get returns")
	require.Equal(t, "(none)", keyOf(key, get("/", "X-API-Key", "")))
	require.Equal(t, "(none)", keyOf(key, get("/")))
	for name, bad := range map[string]bool{
		"x-api_key": false, "!#$%&'*+-.^_`|~09azAZ": false, "": true, "a b": true, "a:b": true, "é": true, "a\x00": true, "[": true, "@": true,
		"{": true, "\x1a": true, "a\x7f": true, "host": true,
	} {
		if bad {
			require.Panics(t, func() { server.Header(name) }, name)
		} else {
			server.Header(name)
		}
	}
}

func TestUser(t *testing.T) {
	t.Parallel()
	r := get("/")
	require.Equal(t, "(none)", keyOf(server.User, r))
	r.SetBasicAuth("ann", "secret")
	require.Equal(t, "ann", keyOf(server.User, r))
	r.SetBasicAuth("", "secret")
	require.Equal(t, "(none)", keyOf(server.User, r))
}

func TestPattern(t *testing.T) {
	t.Parallel()
	var seen []string
	see := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			seen = append(seen, keyOf(server.Pattern, r))
			next.ServeHTTP(w, r)
		})
	}
	users := chi.NewRouter()
	users.Use(see)
	users.With(see).Get("/{id}", ok)
	router := chi.NewRouter()
	router.Use(see)
	router.Mount("/users", users)
	router.ServeHTTP(httptest.NewRecorder(), get("/users/7"))
	require.Equal(t, []string{"(none)", "/users/*", "/users/{id}"}, seen, "root Use, Use of the mounted router, With")

	mux := http.NewServeMux()
	mux.Handle("GET /users/{id}", see(http.HandlerFunc(ok)))
	seen = nil
	see(mux).ServeHTTP(httptest.NewRecorder(), get("/users/7"))
	require.Equal(t, []string{"(none)", "GET /users/{id}"}, seen)
}

func TestFirstOf(t *testing.T) {
	t.Parallel()
	key := server.FirstOf(server.Header("X-API-Key"), server.ClientIP)
	with, without := keyOf(key, get("/", "X-API-Key", "192.0.2.1")), keyOf(key, get("/"))
	require.Equal(t, "0:192.0.2.1", with)
	require.Equal(t, "1:192.0.2.1", without)
	require.Equal(t, "(none)", keyOf(server.FirstOf(server.User, server.Header("A")), get("/")))
	require.Equal(t, "(none)", keyOf(server.FirstOf(), get("/")))
}

func TestAllOf(t *testing.T) {
	t.Parallel()
	r := get("/", "A", "a:b", "B", "c")
	other := get("/", "A", "a", "B", "b:c")
	key := server.AllOf(server.Header("A"), server.Header("B"))
	require.Equal(t, "3:a:b1:c", keyOf(key, r))
	require.NotEqual(t, keyOf(key, r), keyOf(key, other))
	require.Equal(t, "(none)", keyOf(key, get("/", "A", "a")), "a part is missing")
	require.Equal(t, "(none)", keyOf(server.AllOf(), r))
}

func TestHeader_InvalidName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "X API Key", "X-Key:", "Host", "host"} {
		require.Panics(t, func() { server.Header(name) }, name)
	}
}

// Not parallel: it counts allocations.
func TestKeys_Allocations(t *testing.T) {
	r := get("/", "X-Forwarded-For", "1.1.1.1, 2001:db8::7, 10.0.0.2", "X-API-Key", "k")
	r.RemoteAddr, r.Pattern = "10.0.0.1:80", "/users/{id}"
	proxies := server.Proxies{Trusted: prefixes("10.0.0.0/8")}
	in := proxies.In(prefixes("192.0.2.0/24")...)
	for name, tt := range map[string]struct {
		key  server.Key
		want float64
	}{
		"ClientIP": {server.ClientIP, 0},
		"Header":   {server.Header("X-API-Key"), 0},
		"Pattern":  {server.Pattern, 0},
		"Proxies":  {proxies.ClientIP, 1},
		"In":       {func(r *http.Request) (string, bool) { return "", !in(r) }, 0},
		"FirstOf":  {server.FirstOf(server.Header("X-API-Key"), server.ClientIP), 1},
		"AllOf":    {server.AllOf(server.ClientIP, server.Pattern), 1},
	} {
		got := testing.AllocsPerRun(1000, func() {
			if _, found := tt.key(r); !found {
				t.Fatal("no key")
			}
		})
		require.InDelta(t, tt.want, got, 0, name)
	}
}
