package routes_test

import (
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/gresil/gresil/internal/phase"
	"github.com/gresil/gresil/internal/routes"
)

// found returns the patterns that r may be of, as a router has taken it so far. "" is none.
func found(table *routes.Table[string], r *http.Request) []string {
	seen := routes.Seen{}
	if by := chi.RouteContext(r.Context()); by != nil {
		seen = routes.Seen{Path: by.RoutePath, Method: by.RouteMethod, Mounted: len(by.RoutePatterns) > 0}
	}
	first, more := table.Find(r, seen)
	return append(more, first)
}

// chiPattern returns a pattern as chi has it.
func chiPattern(pattern string) string {
	p := strings.NewReplacer("/{$}", "/", "{x...}", "*", "%61", "a").Replace(pattern)
	if strings.HasSuffix(p, "/") && !strings.HasSuffix(pattern, "{$}") {
		p += "*"
	}
	return p
}

// A ServeMux and a table, over the same patterns, find the same one. If the path is not clean, or has a slash or an extension that
// middleware can leave out, it is among those that the table finds. So is what chi finds with its middleware, unless that leaves
// out the end of a path inside of the limiter that has another route as it is.
func FuzzFindsWhatAServeMuxFinds(f *testing.F) {
	for seed := range uint64(100) {
		f.Add(seed, "/a/b", "h")
	}
	f.Add(uint64(7), "/a//b/../c/", "h:80")
	f.Add(uint64(8), "/%61/%2e%2e/b", "H")
	f.Add(uint64(9), "/a/%2F", "h")
	f.Add(uint64(10), "/a%2Fb/%2f/c", "h")
	f.Fuzz(func(t *testing.T, seed uint64, target, host string) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		pick := func(from ...string) string { return from[rnd.IntN(len(from))] }
		random := func(last ...string) string {
			var b strings.Builder
			for range rnd.IntN(4) {
				b.WriteString(pick("/a", "/a", "/b", "/%61", "/{w}", "/{w}"))
			}
			return strings.Replace(strings.Replace(b.String(), "{w}", "{v}", 1), "{w}", "{u}", 1) + pick(last...)
		}
		mux := http.NewServeMux()
		var patterns []string
		given := map[string]string{}
		for range 12 {
			p := pick("", "", "GET ", "HEAD ", "POST \t") + pick("", "", "h", "g") + random("/", "/a", "/b", "/{x}", "/{x...}", "/{$}")
			if strings.Contains(p, "{w}") || phase.Problem(append(slices.Clone(patterns), p)) != "" {
				continue
			}
			patterns = append(patterns, p)
			given[p] = p
			mux.Handle(p, http.NotFoundHandler())
		}
		table := routes.New("", given)
		var got []string // of the router of chi, where the limiter is
		around := map[string]func(http.Handler) http.Handler{
			"StripSlashes": middleware.StripSlashes, "CleanPath": middleware.CleanPath, "URLFormat": middleware.URLFormat, "GetHead": middleware.GetHead,
			"limiter": func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					got = found(table, r)
					next.ServeHTTP(w, r)
				})
			},
		}
		names := slices.Sorted(maps.Keys(around))
		rnd.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		names = slices.DeleteFunc(names, func(name string) bool { return name != "limiter" && rnd.IntN(2) == 0 })
		router := chi.NewRouter()
		for _, name := range names {
			router.Use(around[name])
		}
		method := func(p string) string { return p[:max(0, strings.IndexAny(p, " \t"))] }
		slices.SortFunc(patterns, func(a, b string) int { return strings.Compare(method(a), method(b)) }) // chi's Handle replaces the routes of a method
		for _, p := range patterns {
			if strings.HasPrefix(strings.TrimLeft(p[len(method(p)):], " \t"), "/") {
				router.Handle(chiPattern(p), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Reached", p) }))
			}
		}
		targets := []string{target}
		for range 20 {
			targets = append(targets, strings.NewReplacer("{w}", "c", "{v}", "d", "{u}", pick("e", "%65", "..", ".", ""), "{x}", "f").Replace(random("/", "/{x}", "/a/", "//a", "/%2e%2e/b")))
		}
		for _, target := range targets {
			u, err := url.ParseRequestURI(target)
			if err != nil || u.Host != "" || u.Opaque != "" {
				continue // not a path
			}
			plain := u.RawPath == "" && path.Clean(u.Path) == u.Path && !strings.Contains(u.Path, ".")
			for _, h := range []string{"h", "g:80", "x", "H", "h.", host} {
				r := &http.Request{Method: pick("GET", "HEAD", "POST", "PUT"), Host: h, URL: u}
				_, want := mux.Handler(r)
				got := found(table, r)
				many := plain && r.Method != http.MethodHead && len(got) > 3 // a HEAD can be one for a GET
				if many || !slices.Contains(got, want) {
					t.Fatalf("%s %q %q among %q: found %q, of %q", r.Method, h, target, patterns, got, want)
				}
			}
			r := &http.Request{Method: pick("GET", "HEAD", "POST", "PUT"), URL: u}
			got = nil
			w := httptest.NewRecorder()
			router.ServeHTTP(w, r)
			stripped := names[len(names)-1] != "limiter" && (strings.HasSuffix(u.Path, "/") || strings.Contains(u.Path, ".")) // inside: see Route.Pattern
			if reached := w.Header().Get("Reached"); reached != "" && !stripped && !slices.Contains(got, reached) {
				t.Fatalf("%s %q of chi among %q with %v: found %q, of %q", r.Method, target, patterns, names, got, reached)
			}
		}
	})
}
