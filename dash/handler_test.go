package dash_test

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-chi/chi/v5"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/dash"
	"github.com/gresil/gresil/internal/registry"
)

// A fake is an instance with rows, which records its controls.
type fake struct {
	rows  []registry.Row
	err   error // of Rows
	asked []string
}

func (f *fake) source() registry.Source {
	return registry.Source{
		Rows: func(context.Context) ([]registry.Row, error) { return f.rows, f.err },
		Control: func(_ context.Context, verb, row string) (int, error) {
			f.asked = append(f.asked, verb+" "+row)
			return 3, nil
		},
	}
}

// put registers an instance.
func put(tb testing.TB, to *core.Registry, kind, name string, source registry.Source) {
	tb.Helper()
	_, err := (*registry.Registry)(to).Add(registry.Entry{Kind: kind, Name: name, Instance: new(int), Source: source})
	require.NoError(tb, err)
}

// faked returns a registry with the batch "crm", whose rows have all verbs.
func faked(tb testing.TB, keys ...string) (*fake, *core.Registry) {
	tb.Helper()
	f, all := &fake{}, &core.Registry{}
	for _, key := range keys {
		f.rows = append(f.rows, registry.Row{
			Key: key, Cells: []registry.Cell{{Name: "state", Value: "pending"}, {Name: "pending", Value: 4}}, Verbs: []string{"pause", "flush", "delete"},
		})
	}
	put(tb, all, "batch", "crm", f.source())
	return f, all
}

func allow(*http.Request, dash.Action) error { return nil }

func handler(tb testing.TB, of *core.Registry, cfg dash.Config) *dash.Handler {
	tb.Helper()
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	h, err := dash.New(of, cfg)
	require.NoError(tb, err)
	return h
}

func get(h http.Handler, target string, header ...string) *httptest.ResponseRecorder {
	return send(h, httptest.NewRequest(http.MethodGet, target, nil), header...)
}

func send(h http.Handler, r *http.Request, header ...string) *httptest.ResponseRecorder {
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// A reply is the JSON of a page.
type reply struct {
	Now      string
	Process  struct{ PID int }
	Controls bool
	Tables   []struct {
		Kind                       string
		Total, Matching, Attention int
		Errors                     map[string]string
		Columns                    []string
		Rows                       []shown
	}
}

type shown struct {
	Name, Alarm, Target string
	Row                 *string
	Cells               map[string]any
	Verbs               []string
	Figures             any
	Config              []string
}

func decode[T any](t *testing.T, w *httptest.ResponseRecorder) (v T) {
	t.Helper()
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &v), w.Body)
	return v
}

// state returns the JSON of a page.
func state(t *testing.T, h http.Handler, query string) reply {
	t.Helper()
	w := get(h, "/state"+query)
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	return decode[reply](t, w)
}

// rowA returns the row of the key "a".
func rowA(t *testing.T, s reply) (found shown) {
	t.Helper()
	for _, table := range s.Tables {
		for _, row := range table.Rows {
			if *row.Row == "a" {
				return row
			}
		}
	}
	t.Fatal("there is no row a")
	return found
}

func TestConfigValidate(t *testing.T) {
	t.Parallel()
	require.NoError(t, dash.Config{Hosts: []string{"admin.example.com", "127.0.0.1", "::1"}}.Validate())
	err := dash.Config{Hosts: []string{"", "a:80", "B", "[::1]"}}.Validate()
	require.ErrorIs(t, err, core.ErrConfig)
	require.Len(t, strings.Split(err.Error(), "\n"), 4)
	_, err = dash.New(nil, dash.Config{})
	require.EqualError(t, err, "dash.New registry = <nil>: must be the registry of the instances")
	_, err = dash.New(&core.Registry{}, dash.Config{Hosts: []string{"B"}})
	require.EqualError(t, err, `dash.Config.Hosts[0] = B: must be a host name in lower case, without a port`)
}

func TestResponseIsSafeForBrowsers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := handler(t, &core.Registry{}, dash.Config{})
		for path, status := range map[string]int{"/": 200, "/state": 200, "/?n=0": 400, "/none.js": 404, "/control": 404} {
			w := get(h, path)
			require.Equal(t, status, w.Code, path)
			policy := w.Header().Get("Content-Security-Policy")
			require.Contains(t, policy, "default-src 'none'; style-src 'sha256-", path)
			require.Contains(t, policy, "; form-action 'self'; frame-ancestors 'none'; base-uri 'none'", path)
			for field, want := range map[string]string{
				"X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin", "X-Frame-Options": "DENY", "Cache-Control": "no-store",
				"Cross-Origin-Resource-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin",
				"Access-Control-Allow-Origin": "", "Set-Cookie": "",
			} {
				require.Equal(t, want, w.Header().Get(field), path)
			}
			if body := w.Body.String(); strings.Contains(body, "<html") {
				_, style, _ := strings.Cut(body, "<style>")
				style, _, _ = strings.Cut(style, "</style>")
				sum := sha256.Sum256([]byte(style))
				require.Contains(t, policy, "'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'", "the browser accepts the style")
				require.Contains(t, style, "color-scheme")
				require.Less(t, len(body), 20<<10)
			}
		}
	})
}

func TestHosts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := handler(t, &core.Registry{}, dash.Config{Hosts: []string{"admin.example.com", "::1"}})
		own, err := os.Hostname()
		require.NoError(t, err)
		for host, status := range map[string]int{
			"admin.example.com": 200, "ADMIN.example.com:8080": 200, "[::1]:80": 200, "[::1]": 200,
			"evil.example.com": 421, "admin.example.com.evil.com": 421, "": 421,
		} {
			for _, path := range []string{"/", "/state", "/none"} {
				r := httptest.NewRequest(http.MethodGet, path, nil)
				r.Host = host
				w := send(h, r)
				require.Equal(t, status == 421, w.Code == 421, host)
				if status == 421 {
					require.NotContains(t, w.Body.String(), own, "such a web site learns nothing")
					require.NotContains(t, w.Body.String(), runtime.Version())
				}
			}
		}
	})
}

func TestMethods(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := handler(t, &core.Registry{}, dash.Config{})
		for _, path := range []string{"/", "/state", ""} {
			for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch, http.MethodOptions} {
				r := httptest.NewRequest(method, "/", nil)
				r.URL.Path = path
				w := send(h, r)
				require.Equal(t, http.StatusMethodNotAllowed, w.Code, "%s %s", method, path)
				require.Equal(t, "GET, HEAD", w.Header().Get("Allow"))
			}
		}
		require.Equal(t, http.StatusOK, send(h, httptest.NewRequest(http.MethodHead, "/", nil)).Code)
	})
}

func TestPrefix(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		page := http.StripPrefix("/ops/dash", handler(t, &core.Registry{}, dash.Config{Controls: allow}))
		mux, mounted, nested := http.NewServeMux(), chi.NewRouter(), chi.NewRouter()
		mux.Handle("/ops/dash/", page)
		mounted.Mount("/ops/dash", page)
		nested.Route("/ops", func(r chi.Router) { r.Mount("/dash", page) })
		for name, h := range map[string]http.Handler{"mux": mux, "chi": mounted, "chi, nested": nested, "a proxy": page} {
			for path, status := range map[string]int{"/": 200, "/state": 200, "/favicon.ico": 404, "/state/x": 404, "/control": 405, "": 307} {
				w := get(h, "/ops/dash"+path)
				require.Equal(t, status, w.Code, "%s: %q", name, path)
				if location := w.Header().Get("Location"); path == "" {
					require.Contains(t, []string{"./dash/", "/ops/dash/"}, location, name)
				}
			}
		}
		bare := get(handler(t, &core.Registry{}, dash.Config{}), "/ops/dash/")
		require.Equal(t, http.StatusNotFound, bare.Code)
		require.Contains(t, bare.Body.String(), "http.StripPrefix")
		r := httptest.NewRequest(http.MethodGet, "/x", nil)
		r.URL.Path, r.RequestURI = "", "//evil.example.com?x"
		require.Equal(t, "./evil.example.com/", send(handler(t, &core.Registry{}, dash.Config{}), r).Header().Get("Location"), "not to another host")
	})
}

func TestAccept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := handler(t, &core.Registry{}, dash.Config{})
		for accept, json := range map[string]bool{
			"": false, "*/*": false, "text/html,application/json;q=0.9": false, "application/json": true, "Application/JSON; q=0.9, text/plain": true,
		} {
			w := get(h, "/", "Accept", accept)
			require.Equal(t, json, w.Header().Get("Content-Type") == "application/json", accept)
			require.Equal(t, "Accept", w.Header().Get("Vary"))
			failed := get(h, "/none", "Accept", accept)
			require.Equal(t, json, failed.Header().Get("Content-Type") == "application/problem+json", accept)
		}
	})
}
