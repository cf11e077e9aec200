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
	table         // of net/http, which cleans a path, redirects, and takes a HEAD for a GET
	literal table // finds a path as it is, as chi does
	root    *rule // of requests without a route
	hosts   bool  // a pattern has a host
	trees   bool  // a pattern that is not the root can end in a slash
}

type table struct {
	mux   *http.ServeMux
	rules map[string]*rule // by pattern
}

func newTable() table { return table{http.NewServeMux(), map[string]*rule{}} }

// A span is which paths a pattern selects.
type span struct {
	one     bool // a single one
	wild    bool // it has a wildcard
	slash   bool // it can end in a slash
	slashes int  // in the pattern
}

// newRoutes returns the routes of patterns that are valid together.
func newRoutes(s *Server, all []Route) *routes {
	rs := &routes{table: newTable(), literal: newTable(), root: s.root}
	for _, r := range all {
		u := &rule{limit: s.root.limit, tiered: true}
		if r.Limit != "" {
			u = s.named(r.Limit)
		}
		u.weight = r.Weight
		rs.add(r.Pattern, u)
	}
	if rs.root == s.root {
		rs.mux.Handle("/", http.NotFoundHandler()) // otherwise the mux looks for other methods
	}
	return rs
}

func (rs *routes) add(pattern string, u *rule) {
	method, host, p := split(pattern)
	wild, single := strings.Contains(p, "{"), strings.HasSuffix(p, "{$}")
	slash := single || strings.HasSuffix(p, "/") || strings.HasSuffix(p, "...}")
	u.span = span{one: !wild && !slash, wild: wild, slash: slash, slashes: strings.Count(p, "/")}
	if method+host == "" && slash && u.slashes == 1 && !single {
		rs.root = u
	} else {
		rs.trees = rs.trees || slash
	}
	rs.hosts = rs.hosts || host != ""
	rs.table.add(normal(pattern), u)
	// With a host and CONNECT a ServeMux neither cleans nor redirects. So the method is the first part of the path.
	rs.literal.add(http.MethodConnect+" "+cmp.Or(host, noHost)+"/"+cmp.Or(method, "{"+strings.Repeat("m", len(p))+"}")+p, u) // longer than each name in p
}

func (t table) add(pattern string, u *rule) {
	t.rules[pattern] = u
	t.mux.Handle(pattern, http.NotFoundHandler())
}

const noHost = "_"

// split returns the parts of a pattern, with the host in lower case.
func split(pattern string) (method, host, p string) {
	if i := strings.IndexAny(pattern, " \t"); i >= 0 {
		method, pattern = pattern[:i], strings.TrimLeft(pattern[i:], " \t")
	}
	i := max(0, strings.Index(pattern, "/"))
	return method, strings.ToLower(pattern[:i]), pattern[i:]
}

// normal returns a pattern with its host in lower case.
func normal(pattern string) string {
	method, host, p := split(pattern)
	return strings.TrimLeft(method+" "+host+p, " ")
}

// find returns the rule of r, and others that it may have, depending on the router and its middleware, which can be outside or
// inside of the limiter. Most requests have one, and it takes one look.
func (rs *routes) find(r *http.Request) (first *rule, more []*rule) {
	routing := chi.RouteContext(r.Context())
	if plain(r, routing) && (!rs.hosts || r.Host == lowerName(r.Host)) {
		u, p := rs.look(rs.table, r), r.URL.Path
		redirected := u.slashes > strings.Count(p, "/")
		if !rs.trees || !redirected && (u.slash || !u.wild || rs.mounted(r.Method, r.Host, p) == rs.root) {
			return u, nil
		}
	}
	x := search{routes: rs, host: lowerName(r.Host)}
	methods := []string{r.Method}
	if r.Method == http.MethodHead { // with GetHead of chi
		methods = append(methods, http.MethodGet)
	}
	if routing != nil && routing.RouteMethod != "" && routing.RouteMethod != r.Method {
		methods = append(methods, routing.RouteMethod)
	}
	for i, method := range methods {
		x.all(method, r.URL, routing, i == 0)
	}
	return x.found[0], x.found[1:]
}

// look returns the rule that a table has for r.
func (rs *routes) look(t table, r *http.Request) *rule {
	_, pattern := t.mux.Handler(r)
	if u := t.rules[pattern]; u != nil {
		return u
	}
	return rs.root
}

// plain reports whether every router takes r for the same.
func plain(r *http.Request, routing *chi.Context) bool {
	p := r.URL.Path
	if routing != nil && (routing.RoutePath != "" && routing.RoutePath != p || routing.RouteMethod != "" && routing.RouteMethod != r.Method) {
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

// all adds the rules for every path that a router may see.
func (x *search) all(method string, u *url.URL, routing *chi.Context, root bool) {
	raw := cmp.Or(u.RawPath, u.Path)
	clean := path.Clean(raw) // by CleanPath of chi
	all := []seen{{raw, root}, {clean, root && clean != strings.TrimRight(raw, "/")}, {u.Path, false}}
	if routing != nil && routing.RoutePath != "" { // in a mounted router it is without a prefix
		all = append(all, seen{routing.RoutePath, root && len(routing.RoutePatterns) == 0}, seen{path.Clean(routing.RoutePath), false})
	}
	mux, literal := x.asMux(method, x.host, u), x.asChi(method, x.host, raw)
	x.add(mux, root)
	x.add(literal, root)
	if mux.one && literal.one && !slices.ContainsFunc(all, func(s seen) bool { return s.path != raw }) {
		return
	}
	for _, s := range all {
		p := s.path
		for i := 0; i < 9 && strings.HasPrefix(p, "/"); i, s.root = i+1, false { // StripSlashes and URLFormat of chi, several times
			x.add(x.asMux(method, x.host, &url.URL{Path: p}), false)
			x.add(x.asChi(method, x.host, p), s.root)
			x.add(x.mounted(method, x.host, p), false)
			longer := p
			if p = strings.TrimRight(p, "/"); p == longer {
				p = strings.TrimSuffix(p, path.Ext(p))
			}
			if p == longer {
				break
			}
		}
	}
}

// asMux returns the rule for a path in a ServeMux.
func (rs *routes) asMux(method, host string, u *url.URL) *rule {
	return rs.look(rs.table, &http.Request{Method: method, Host: host, URL: u})
}

// asChi returns the rule for a path in a router that takes it as it is.
func (rs *routes) asChi(method, host, p string) *rule {
	probe := http.Request{Method: http.MethodConnect, Host: host, URL: &url.URL{Path: "/" + method + p}}
	if rs.hosts {
		if u := rs.look(rs.literal, &probe); u != rs.root {
			return u
		}
	}
	probe.Host = noHost
	return rs.look(rs.literal, &probe)
}

// mounted returns the rule for a path with a slash at its end, if there is a pattern for just that, or the root. A
// router that is mounted in chi serves the path with the slash and without it.
func (rs *routes) mounted(method, host, p string) *rule {
	if u := rs.asChi(method, host, p+"/"); u != rs.root && u.slash && u.slashes == strings.Count(p, "/")+1 {
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
