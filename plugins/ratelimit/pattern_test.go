package ratelimit

import (
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A mux of net/http and our routes, over the same patterns, find the same one.
func FuzzRoutesFindWhatAServeMuxFinds(f *testing.F) {
	for seed := range uint64(300) {
		f.Add(seed, "/a/b", "h")
	}
	f.Add(uint64(7), "/a//b/../c/", "h:80")
	f.Add(uint64(8), "/%61/%2e%2e/b", "H")
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
			if strings.Count(p, "{w}") > 0 || register(append(slices.Clone(patterns), p)...) != nil {
				continue
			}
			patterns = append(patterns, p)
			mux.Handle(p, http.NotFoundHandler())
			rs = append(rs, route{parsePattern(p), &rule{mark: p}})
		}
		slices.SortFunc(rs, func(a, b route) int { return bySpecificity(a.pattern, b.pattern) })
		targets := []string{target}
		for range 20 {
			targets = append(targets, strings.NewReplacer("{w}", "c", "{v}", "d", "{u}", pick("e", "%65", "..", ".", ""), "{x}", "f").Replace(path("", "/", "/{x}", "/a/", "//a", "/%2e%2e/b")))
		}
		for _, target := range targets {
			u, err := url.ParseRequestURI(target)
			if err != nil || u.Host != "" || u.Opaque != "" || strings.Contains(strings.ToLower(target), "%2f") {
				continue // not a path; and a mux takes an escaped slash for one at the end
			}
			for _, h := range []string{"h", "g:80", "x", host} {
				if strings.ToLower(h) != h {
					continue // a mux takes H for another host
				}
				r := &http.Request{Method: pick("GET", "HEAD", "POST", "PUT"), Host: h, URL: u}
				_, want := mux.Handler(r)
				got := ""
				if found := rs.find(r); found != nil {
					got = found.mark
				}
				require.Equal(t, want, got, "%s %q %q among %q", r.Method, h, target, patterns)
			}
		}
	})
}

func TestRoutes_HostsInAnyCase(t *testing.T) {
	t.Parallel()
	rs := routes{{parsePattern("api.example.com/"), &rule{}}}
	for host, want := range map[string]bool{"API.Example.com": true, "api.example.com:8080": true, "example.com": false} {
		r := &http.Request{Method: http.MethodGet, Host: host, URL: &url.URL{Path: "/x"}}
		require.Equal(t, want, rs.find(r) != nil, host)
	}
}
