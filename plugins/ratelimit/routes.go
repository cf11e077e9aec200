package ratelimit

import (
	"cmp"
	"net"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/go-chi/chi/v5"
)

// routes find the rule of a request by the pattern that a ServeMux finds, not by its handler, which can be a redirect.
type routes struct {
	mux     *http.ServeMux   // cleans a path, redirects, and takes a HEAD for a GET
	literal *http.ServeMux   // finds a path as it is, as chi does
	rules   map[string]*rule // by pattern of each
	root    *rule            // of requests without a route
	hosts   bool             // a pattern has a host
	trees   bool             // a pattern that is not the root can end in a slash
}

// A span is which paths a pattern selects.
type span struct {
	wild    bool // it has a wildcard
	slash   bool // it can end in a slash
	slashes int  // in the pattern
}

// newRoutes returns the routes of patterns that are valid together.
func newRoutes(s *Server, all []Route) *routes {
	rs := &routes{mux: http.NewServeMux(), literal: http.NewServeMux(), rules: map[string]*rule{}, root: s.root}
	for _, r := range all {
		u := &rule{limit: s.root.limit, tiered: true}
		if r.Limit != "" {
			u = s.named(r.Limit)
		}
		u.weight = r.Weight
		i := strings.Index(r.Pattern, "/")
		before, p := r.Pattern[:i], r.Pattern[i:]
		host := before[strings.LastIndexAny(before, " \t")+1:]
		method := strings.TrimRight(before[:i-len(host)], " \t")
		single := strings.HasSuffix(p, "/{$}")
		u.span = span{strings.Contains(p, "{"), single || strings.HasSuffix(p, "/") || strings.HasSuffix(p, "...}"), strings.Count(p, "/")}
		if i == 0 && u.slash && u.slashes == 1 && !single {
			rs.root = u
		} else {
			rs.trees = rs.trees || u.slash
		}
		rs.hosts = rs.hosts || host != ""
		rs.mux.Handle(r.Pattern, http.NotFoundHandler())
		// With a host and CONNECT a ServeMux neither cleans nor redirects. So the method is the first part of the path. Its wildcard is
		// longer than each name in p.
		literal := http.MethodConnect + " " + asIs + host + "/" + cmp.Or(method, "{"+strings.Repeat("m", len(p))+"}") + p
		rs.literal.Handle(literal, http.NotFoundHandler())
		rs.rules[r.Pattern], rs.rules[literal] = u, u
	}
	if rs.root == s.root {
		rs.mux.Handle("/", http.NotFoundHandler()) // otherwise the mux looks for other methods
	}
	return rs
}

const asIs = "_" // begins each host of literal

// find returns the rule of r, and others that it may have, depending on the router and its middleware, which can be outside or
// inside of the limiter. Most requests have one, and it takes one look.
func (rs *routes) find(r *http.Request) (first *rule, more []*rule) {
	routing := chi.RouteContext(r.Context())
	if plain(r, routing) && (!rs.hosts || r.Host == lowerName(r.Host)) {
		u, p := rs.look(rs.mux, r), r.URL.Path
		redirected := u.slashes > strings.Count(p, "/")
		if !rs.trees || !redirected && (u.slash || !u.wild || rs.mounted(r.Method, r.Host, p) == rs.root) {
			return u, nil
		}
	}
	x := search{routes: rs, host: lowerName(r.Host)}
	x.all(r.Method, r.URL, routing, true)
	if r.Method == http.MethodHead { // with GetHead of chi
		x.all(http.MethodGet, r.URL, routing, false)
	}
	if routing != nil && routing.RouteMethod != "" {
		x.all(routing.RouteMethod, r.URL, routing, false)
	}
	return x.found[0], x.found[1:]
}

// look returns the rule that a mux has for r.
func (rs *routes) look(mux *http.ServeMux, r *http.Request) *rule {
	_, pattern := mux.Handler(r)
	if u := rs.rules[pattern]; u != nil {
		return u
	}
	return rs.root
}

// plain reports whether every router takes r for the same.
func plain(r *http.Request, routing *chi.Context) bool {
	p := r.URL.Path
	if routing != nil &&
		(routing.RoutePath != "" && routing.RoutePath != p || routing.RouteMethod != "" && routing.RouteMethod != r.Method) {
		return false
	}
	return r.Method != http.MethodHead && r.URL.RawPath == "" && strings.HasPrefix(p, "/") && (p == "/" || !strings.HasSuffix(p, "/")) &&
		!strings.Contains(p, "//") && !strings.Contains(p, ".")
}

// lowerName returns the name of a host, without its port and the dot at its end.
func lowerName(host string) string {
	if strings.Contains(host, ":") {
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
	}
	return strings.TrimSuffix(strings.ToLower(host), ".")
}

// A search looks for the rules of a request.
type search struct {
	*routes
	host  string
	found []*rule
}

// A seen is a path that a router may see, and whether requests without a route can have it there.
type seen struct {
	path string
	root bool
}

// all adds the rules for every path that a router may see. The root counts only if root is set.
func (x *search) all(method string, u *url.URL, routing *chi.Context, root bool) {
	x.add(x.look(x.mux, &http.Request{Method: method, Host: x.host, URL: u}), root)
	raw := cmp.Or(u.RawPath, u.Path)
	clean := path.Clean(raw) // by CleanPath of chi
	all := []seen{{raw, root}, {clean, root && clean != strings.TrimRight(raw, "/")}, {u.Path, false}}
	if routing != nil && routing.RoutePath != "" { // in a mounted router it is without a prefix
		all = append(all, seen{routing.RoutePath, root && len(routing.RoutePatterns) == 0}, seen{path.Clean(routing.RoutePath), false})
	}
	for _, s := range all {
		for range 9 { // StripSlashes and URLFormat of chi, several times
			if !strings.HasPrefix(s.path, "/") {
				break
			}
			x.add(x.asIs(method, x.host, s.path), s.root)
			x.add(x.mounted(method, x.host, s.path), false)
			shorter := strings.TrimRight(s.path, "/")
			if shorter == s.path {
				shorter = strings.TrimSuffix(s.path, path.Ext(s.path))
			}
			if shorter == s.path {
				break
			}
			s = seen{shorter, false}
		}
	}
}

// asIs returns the rule for a path in a router that takes it as it is.
func (rs *routes) asIs(method, host, p string) *rule {
	probe := http.Request{Method: http.MethodConnect, Host: asIs + host, URL: &url.URL{Path: "/" + method + p}}
	if rs.hosts {
		if u := rs.look(rs.literal, &probe); u != rs.root {
			return u
		}
	}
	probe.Host = asIs
	return rs.look(rs.literal, &probe)
}

// mounted returns the rule for a path with a slash at its end, if there is a pattern for just that, or the root. A
// router that is mounted in chi serves the path with the slash and without it.
func (rs *routes) mounted(method, host, p string) *rule {
	if u := rs.asIs(method, host, p+"/"); u != rs.root && u.slash && u.slashes == strings.Count(p, "/")+1 {
		return u
	}
	return rs.root
}

// add adds a rule, also the root if that counts.
func (x *search) add(u *rule, root bool) {
	if (root || u != x.root) && !slices.Contains(x.found, u) {
		x.found = append(x.found, u)
	}
}
