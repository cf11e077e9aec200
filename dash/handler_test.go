package dash_test

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/dash"
)

func handler(t *testing.T, registry *core.Registry, cfg dash.Config) *dash.Handler {
	t.Helper()
	cfg.Timeout = cmp.Or(cfg.Timeout, time.Minute) // the machine can be slow
	h, err := dash.New(registry, cfg)
	require.NoError(t, err)
	return h
}

func get(h http.Handler, target string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, nil))
	return w
}

// state returns the JSON of a page.
func state(t *testing.T, h http.Handler, query string) (s reply) {
	t.Helper()
	w := get(h, "/api/state"+query)
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &s))
	return s
}

type reply struct {
	V        int
	Now      string
	Boot     string
	Process  struct{ PID int }
	Controls bool
	Page     struct {
		Kind     string
		N        int
		Page     int
		Left_out int //nolint:revive // as in JSON
	}
	Totals map[string]struct{ Rows, Attention, Matching, Shown int }
	Rows   []map[string]any
	Errors []struct{ Kind, Name, Error string }
}

func TestConfigIsValidated(t *testing.T) {
	t.Parallel()
	require.NoError(t, dash.Config{}.Validate())
	require.NoError(t, dash.Config{Timeout: time.Minute}.Validate())
	require.Error(t, dash.Config{Timeout: time.Minute + 1}.Validate())
	require.Error(t, dash.Config{Hosts: []string{"[::1]"}}.Validate())
	require.NoError(t, dash.Config{Hosts: []string{"admin.example.com", "127.0.0.1", "::1"}, Origins: []string{"https://a.example.com:8443"}}.Validate())
	err := dash.Config{Timeout: -1, Hosts: []string{"", "a:80", "B"}, Origins: []string{"a.example.com", "https://a/b"}}.Validate()
	require.ErrorIs(t, err, core.ErrConfig)
	require.Len(t, strings.Split(err.Error(), "\n"), 6)
	_, err = dash.New(nil, dash.Config{})
	require.ErrorContains(t, err, "dash.New registry")
	_, err = dash.New(&core.Registry{}, dash.Config{Timeout: -1})
	require.EqualError(t, err, "dash.Config.Timeout = -1ns: must be >= 0 and <= 1m0s (0 means 2s)")
}

func TestEachResponseIsSafeForABrowser(t *testing.T) {
	t.Parallel()
	h := handler(t, &core.Registry{}, dash.Config{})
	for path, status := range map[string]int{
		"/": 200, "/api/state": 200, "/app.css": 200, "/icon.svg": 200, "/?n=0": 400, "/none.js": 404, "/api/none": 404, "/api/control": 404,
	} {
		w := get(h, path)
		require.Equal(t, status, w.Code, path)
		require.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"), path)
		require.Equal(t, "same-origin", w.Header().Get("Referrer-Policy"), path)
		require.Equal(t, "DENY", w.Header().Get("X-Frame-Options"), path)
		require.Contains(t, w.Header().Get("Content-Security-Policy"), "default-src 'none'", path)
		require.Contains(t, w.Header().Get("Content-Security-Policy"), "form-action 'self'", path)
		require.Empty(t, w.Header().Get("Access-Control-Allow-Origin"), path)
		require.Empty(t, w.Header().Get("Set-Cookie"), path)
		if path != "/app.css" && path != "/icon.svg" {
			require.Equal(t, "no-store", w.Header().Get("Cache-Control"), path)
		}
	}
}

func TestOnlyTheHostsOfTheConfigAreServed(t *testing.T) {
	t.Parallel()
	h := handler(t, &core.Registry{}, dash.Config{Hosts: []string{"admin.example.com", "::1"}})
	for host, status := range map[string]int{
		"admin.example.com": 200, "ADMIN.example.com:8080": 200, "[::1]:80": 200, "[::1]": 200, "evil.example.com": 421, "admin.example.com.evil.com": 421, "": 421,
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host = host
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		require.Equal(t, status, w.Code, host)
	}
}

func TestMethodsThatDoNotReadAreRefused(t *testing.T) {
	t.Parallel()
	h := handler(t, &core.Registry{}, dash.Config{})
	for _, path := range []string{"/", "/api/state", "/app.css"} {
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch, http.MethodOptions} {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
			require.Equal(t, http.StatusMethodNotAllowed, w.Code, "%s %s", method, path)
			require.Equal(t, "GET, HEAD", w.Header().Get("Allow"))
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodHead, path, nil))
		require.Equal(t, http.StatusOK, w.Code)
	}
}

// mounts are the ways in which a handler is put below a prefix.
func mounts(h http.Handler) map[string]http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/ops/dash/", http.StripPrefix("/ops/dash", h))
	bare := http.NewServeMux()
	bare.Handle("/ops/dash/", h)
	cut, nested, whole := chi.NewRouter(), chi.NewRouter(), chi.NewRouter()
	cut.Mount("/ops/dash", http.StripPrefix("/ops/dash", h))
	nested.Route("/ops", func(r chi.Router) { r.Mount("/dash", http.StripPrefix("/ops/dash", h)) })
	whole.Mount("/ops/dash", h)
	return map[string]http.Handler{"mux": mux, "mux, not cut": bare, "chi": cut, "chi in a route": nested, "chi, not cut": whole}
}

func TestThePageWorksBelowAnyPrefix(t *testing.T) {
	t.Parallel()
	for name, mounted := range mounts(handler(t, &core.Registry{}, dash.Config{Controls: true})) {
		server := httptest.NewServer(mounted)
		client := server.Client()
		res, err := client.Get(server.URL + "/ops/dash?n=7")
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, http.StatusOK, res.StatusCode, name)
		require.Equal(t, server.URL+"/ops/dash/?n=7", res.Request.URL.String(), name)
		for path, status := range map[string]int{"api/state": 200, "app.css": 200, "": 200, "favicon.ico": 404, "api/none": 404, "api/control": 405} {
			res, err := client.Get(server.URL + "/ops/dash/" + path)
			require.NoError(t, err)
			require.NoError(t, res.Body.Close())
			require.Equal(t, status, res.StatusCode, "%s: %q", name, path)
		}
		server.Close()
	}
	// A proxy that cuts the prefix, with and without its slash.
	h := handler(t, &core.Registry{}, dash.Config{})
	require.Equal(t, http.StatusOK, get(h, "/").Code)
	require.Equal(t, "./dash/", get(http.StripPrefix("/ops/dash", h), "/ops/dash").Header().Get("Location"))
	require.Equal(t, http.StatusNotFound, get(http.StripPrefix("/ops", h), "/ops/other").Code)
	// No redirect to another host.
	r := httptest.NewRequest(http.MethodGet, "/x", nil)
	r.URL.Path, r.RequestURI = "//evil.example.com", "//evil.example.com"
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	require.NotContains(t, w.Header().Get("Location"), "//")
}

func TestEveryAddressOfThePageIsRelative(t *testing.T) {
	t.Parallel()
	registry := &core.Registry{}
	_, err := breaker.New(breaker.Config{Name: "db", Registry: registry})
	require.NoError(t, err)
	h := handler(t, registry, dash.Config{Controls: true})
	for _, page := range []string{"/", "/?kind=services&refresh=5&page=2&n=1", "/?n=0"} {
		body := get(h, page).Body.String()
		for _, attribute := range []string{"href", "src", "action"} {
			for _, part := range strings.Split(body, attribute+`="`)[1:] {
				address, _, _ := strings.Cut(part, `"`)
				require.True(t, strings.HasPrefix(address, "./"), "%s %q", page, address)
			}
		}
		require.NotContains(t, body, "://")
		require.NotContains(t, body, "<script")
		require.NotContains(t, body, " style=")
		require.NotRegexp(t, ` on[a-z]+=`, body)
	}
}

func TestAClientChoosesBetweenHTMLAndJSON(t *testing.T) {
	t.Parallel()
	h := handler(t, &core.Registry{}, dash.Config{})
	for accept, mediaType := range map[string]string{
		"":                                      "text/html; charset=utf-8",
		"*/*":                                   "text/html; charset=utf-8",
		"text/html,application/json":            "text/html; charset=utf-8",
		"application/json":                      "application/json",
		"Application/JSON; q=0.9":               "application/json",
		"text/html;q=0.5, application/json":     "application/json",
		"application/json;q=0, text/html;q=0.1": "text/html; charset=utf-8",
		"application/json;q=x":                  "text/html; charset=utf-8",
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Accept", accept)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		require.Equal(t, mediaType, w.Header().Get("Content-Type"), accept)
		require.Equal(t, "Accept", w.Header().Get("Vary"))
	}
}

func TestAQueryThatCannotBeUsedIsNamed(t *testing.T) {
	t.Parallel()
	h := handler(t, &core.Registry{}, dash.Config{})
	for query, want := range map[string]string{
		"n=0":                            `query n = "0": must be 1 to 500`,
		"n=501":                          `query n = "501": must be 1 to 500`,
		"n=x":                            `query n = "x": must be 1 to 500`,
		"refresh=-1":                     `query refresh = "-1": must be 0 to 3600`,
		"kind=none":                      `query kind = "none": must be `,
		"kind=services&page=0":           `query page = "0": must be 1 to 1048576`,
		"kind=services&dir=up":           `query dir = "up": must be asc or desc`,
		"kind=services&sort=none":        `query sort = "none": must be name or one of kind, figures`,
		"page=2":                         `query kind = "": must be set with sort and page`,
		"q=%zz":                          `query encoding = "": must be a valid URL query`,
		"q=" + strings.Repeat("x", 3000): `query length = "3002": must be at most 2048 bytes`,
	} {
		w := get(h, "/api/state?"+query)
		require.Equal(t, http.StatusBadRequest, w.Code, query)
		require.Equal(t, "application/problem+json", w.Header().Get("Content-Type"))
		var problem struct {
			Title, Detail string
			Status        int
		}
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &problem))
		require.Equal(t, "Bad Request", problem.Title)
		require.Equal(t, http.StatusBadRequest, problem.Status)
		require.Contains(t, problem.Detail, want)
		require.Equal(t, http.StatusBadRequest, get(h, "/?"+query).Code, query)
	}
}

func TestTheStyleSheetIsCachedByItsHash(t *testing.T) {
	t.Parallel()
	h := handler(t, &core.Registry{}, dash.Config{})
	_, address, _ := strings.Cut(get(h, "/").Body.String(), `<link rel="stylesheet" href="./`)
	address, _, _ = strings.Cut(address, `"`)
	u, err := url.Parse("/" + address)
	require.NoError(t, err)
	w := get(h, u.String())
	require.Equal(t, "text/css; charset=utf-8", w.Header().Get("Content-Type"))
	require.Equal(t, "public, max-age=31536000, immutable", w.Header().Get("Cache-Control"))
	require.Contains(t, w.Body.String(), "color-scheme")
	require.Equal(t, "no-cache", get(h, "/app.css?v=other").Header().Get("Cache-Control"))
	r := httptest.NewRequest(http.MethodGet, "/app.css", nil)
	r.Header.Set("If-None-Match", w.Header().Get("ETag"))
	again := httptest.NewRecorder()
	h.ServeHTTP(again, r)
	require.Equal(t, http.StatusNotModified, again.Code)
	require.Empty(t, again.Body.String())
}
