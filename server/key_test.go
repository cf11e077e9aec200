package server_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/server"
)

func TestByHeader(t *testing.T) {
	t.Parallel()
	key := server.ByHeader("x-api-key")
	require.Equal(t, "k1", keyOf(key, get("/", "X-API-Key", "k1")))
	require.Equal(t, "k1", keyOf(key, get("/", "X-API-Key", "k1", "X-API-Key", "k2")), "the one that Header.Get returns")
	require.Equal(t, "(none)", keyOf(key, get("/", "X-API-Key", "")))
	require.Equal(t, "(none)", keyOf(key, get("/")))
}

func TestByUser(t *testing.T) {
	t.Parallel()
	r := get("/")
	require.Equal(t, "(none)", keyOf(server.ByUser(), r))
	r.SetBasicAuth("ann", "secret")
	require.Equal(t, "ann", keyOf(server.ByUser(), r))
	r.SetBasicAuth("", "secret")
	require.Equal(t, "(none)", keyOf(server.ByUser(), r))
}

func TestByRoute(t *testing.T) {
	t.Parallel()
	var seen []string
	see := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			seen = append(seen, keyOf(server.ByRoute(), r))
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

func TestFirstOf_APIKeyThatReadsLikeAnIPIsNotThatIP(t *testing.T) {
	t.Parallel()
	key := server.FirstOf(server.ByHeader("X-API-Key"), server.ByClientIP())
	with, without := keyOf(key, get("/", "X-API-Key", "192.0.2.1")), keyOf(key, get("/"))
	require.Equal(t, "0:192.0.2.1", with)
	require.Equal(t, "1:192.0.2.1", without)
	require.Equal(t, "(none)", keyOf(server.FirstOf(server.ByUser(), server.ByHeader("A")), get("/")))
	require.Equal(t, "(none)", keyOf(server.FirstOf(), get("/")))
}

func TestKeys(t *testing.T) {
	t.Parallel()
	r := get("/", "A", "a:b", "B", "c")
	other := get("/", "A", "a", "B", "b:c")
	key := server.Keys(server.ByHeader("A"), server.ByHeader("B"))
	require.Equal(t, "3:a:b1:c", keyOf(key, r))
	require.NotEqual(t, keyOf(key, r), keyOf(key, other))
	require.Equal(t, "(none)", keyOf(key, get("/", "A", "a")), "a part is missing")
	require.Equal(t, "(none)", keyOf(server.Keys(), r))

	dst := []byte("kept ")
	got, found := key(dst, r)
	require.True(t, found)
	require.Equal(t, "kept 3:a:b1:c", string(got))
	got, found = key(dst, get("/", "A", "a"))
	require.False(t, found)
	require.Equal(t, "kept ", string(got))
}

// A composed key is injective: two requests have one key only if they have every
// part in common, whatever the parts are.
func FuzzKeysAreInjective(f *testing.F) {
	for _, seed := range [][4]string{
		{"a:b", "c", "a", "b:c"},
		{"", "", "", ""},
		{"1:", "", "", "1:"},
		{"a", "", "", "a"},
		{"3:abc", "d", "3", "abc1:d"},
		{"\x00", "\xff", "\x00\xff", ""},
		{"1:a", "1:a", "1:a1", "a"},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3])
	}
	part := func(name string) server.Key {
		return func(dst []byte, r *http.Request) ([]byte, bool) { return append(dst, r.Header[name][0]...), true }
	}
	r := func(a, b string) *http.Request { return &http.Request{Header: http.Header{"a": {a}, "b": {b}}} }
	f.Fuzz(func(t *testing.T, a1, b1, a2, b2 string) {
		same := a1 == a2 && b1 == b2
		for name, key := range map[string]server.Key{
			"flat":   server.Keys(part("a"), part("b")),
			"nested": server.Keys(server.Keys(part("a")), server.FirstOf(part("b"))),
		} {
			require.Equal(t, same, keyOf(key, r(a1, b1)) == keyOf(key, r(a2, b2)), name)
		}
		first := keyOf(server.FirstOf(part("a"), part("b")), r(a1, b1))
		second := keyOf(server.FirstOf(server.ByUser(), part("b")), r(a2, b2))
		require.NotEqual(t, first, second, "the choice is part of the key")
	})
}
