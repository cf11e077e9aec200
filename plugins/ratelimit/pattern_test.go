package ratelimit

import (
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/internal/muxpattern"
)

// ruled returns the marks of the rules that r may have, "" for none.
func ruled(rs routes, r *http.Request) (marks []string) {
	first, more := rs.rules(r, new(rule))
	for _, u := range append(more, first) {
		marks = append(marks, u.mark)
	}
	slices.Sort(marks)
	return slices.Compact(marks)
}

// inChi returns a pattern as chi has it.
func inChi(pattern string) string {
	p := strings.NewReplacer("/{$}", "/", "{x...}", "*", "%61", "a").Replace(pattern)
	if strings.HasSuffix(p, "/") && !strings.HasSuffix(pattern, "{$}") {
		p += "*"
	}
	return p
}

// A mux of net/http and our routes, over the same patterns, find the same one. If the path is
// not clean, or could have a slash or an extension for a middleware to strip, it is among
// those that our routes find. So is what chi finds with its middleware, unless that leaves out
// the end of a path inside of the limiter.
func FuzzRoutesFindWhatAServeMuxFinds(f *testing.F) {
	for seed := range uint64(300) {
		f.Add(seed, "/a/b", "h")
	}
	f.Add(uint64(7), "/a//b/../c/", "h:80")
	f.Add(uint64(8), "/%61/%2e%2e/b", "H")
	f.Add(uint64(9), "/a/%2F", "h")
	f.Add(uint64(10), "/a%2Fb/%2f/c", "h")
	f.Fuzz(func(t *testing.T, seed uint64, target, host string) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		pick := func(from ...string) string { return from[rnd.IntN(len(from))] }
		path := func(last ...string) string {
			var b strings.Builder
			for range rnd.IntN(4) {
				b.WriteString(pick("/a", "/a", "/b", "/%61", "/{w}", "/{w}"))
			}
			return strings.Replace(strings.Replace(b.String(), "{w}", "{v}", 1), "{w}", "{u}", 1) + pick(last...)
		}
		mux, rs := http.NewServeMux(), routes{}
		var patterns []string
		for range 12 {
			p := pick("", "", "GET ", "HEAD ", "POST \t") + pick("", "", "h", "g") + path("/", "/a", "/b", "/{x}", "/{x...}", "/{$}")
			if strings.Count(p, "{w}") > 0 || muxpattern.Problem(append(slices.Clone(patterns), p)) != "" {
				continue
			}
			patterns = append(patterns, p)
			mux.Handle(p, http.NotFoundHandler())
			rs = append(rs, route{parsePattern(p), &rule{mark: p}})
		}
		slices.SortFunc(rs, func(a, b route) int { return bySpecificity(a.pattern, b.pattern) })
		var got []string // of the router of chi, where the limiter is
		var names []string
		around := map[string]func(http.Handler) http.Handler{
			"StripSlashes": middleware.StripSlashes, "CleanPath": middleware.CleanPath, "URLFormat": middleware.URLFormat, "GetHead": middleware.GetHead,
			"limiter": func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					got = ruled(rs, r)
					next.ServeHTTP(w, r)
				})
			},
		}
		names = slices.Sorted(maps.Keys(around))
		rnd.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		names = slices.DeleteFunc(names, func(name string) bool { return name != "limiter" && rnd.IntN(2) == 0 })
		router := chi.NewRouter()
		for _, name := range names {
			router.Use(around[name])
		}
		slices.SortFunc(patterns, func(a, b string) int { return strings.Compare(parsePattern(a).method, parsePattern(b).method) }) // chi's Handle replaces the routes of a method
		for _, p := range patterns {
			if parsePattern(p).host == "" {
				router.Handle(inChi(p), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Reached", p) }))
			}
		}
		targets := []string{target}
		for range 20 {
			targets = append(targets, strings.NewReplacer("{w}", "c", "{v}", "d", "{u}", pick("e", "%65", "..", ".", ""), "{x}", "f").Replace(path("", "/", "/{x}", "/a/", "//a", "/%2e%2e/b")))
		}
		for _, target := range targets {
			u, err := url.ParseRequestURI(target)
			if err != nil || u.Host != "" || u.Opaque != "" {
				continue // not a path
			}
			plain := u.RawPath == "" && clean(u.Path) == u.Path && !strings.Contains(u.Path, ".") && (u.Path == "/" || !strings.HasSuffix(u.Path, "/"))
			for _, h := range []string{"h", "g:80", "x", host} {
				if strings.ToLower(h) != h {
					continue // a mux takes H for another host
				}
				r := &http.Request{Method: pick("GET", "HEAD", "POST", "PUT"), Host: h, URL: u}
				_, want := mux.Handler(r)
				got := ruled(rs, r)
				require.Contains(t, got, want, "%s %q %q among %q", r.Method, h, target, patterns)
				if plain {
					require.LessOrEqual(t, len(got), 3, "%s %q %q among %q", r.Method, h, target, patterns)
				}
			}
			r := &http.Request{Method: pick("GET", "HEAD", "POST", "PUT"), URL: u}
			got = nil
			w := httptest.NewRecorder()
			router.ServeHTTP(w, r)
			stripped := names[len(names)-1] != "limiter" && (strings.HasSuffix(u.Path, "/") || strings.Contains(u.Path, ".")) // inside: see Route.Pattern
			if w.Header().Get("Reached") != "" && !stripped {
				require.Contains(t, got, w.Header().Get("Reached"), "%s %q of chi among %q with %v", r.Method, target, patterns, names)
			}
		}
	})
}

func TestRoutes_HostsInAnyCase(t *testing.T) {
	t.Parallel()
	rs := routes{{parsePattern("api.example.com/"), &rule{mark: "x"}}}
	for host, want := range map[string]bool{"API.Example.com": true, "api.example.com:8080": true, "api.example.com.:80": true, "example.com": false} {
		r := &http.Request{Method: http.MethodGet, Host: host, URL: &url.URL{Path: "/x"}}
		require.Equal(t, want, rs[0].admits(r.Method, r.Host, false), host)
	}
}
