// Package routes finds the patterns of http.ServeMux that a request may be of, however its path is spelled: a router and its
// middleware, further in, can take a path for another one.
package routes

import (
	"cmp"
	"net"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
)

// A Table has a value for each pattern. It goes by the pattern that a ServeMux finds, not by its handler, which can be a redirect.
type Table[T any] struct {
	mux     *http.ServeMux       // cleans a path, redirects, and takes a HEAD for a GET
	literal *http.ServeMux       // finds a path as it is, as chi does
	routes  map[string]*route[T] // by pattern of each
	root    *route[T]            // of requests without another route
	hosts   bool                 // a pattern has a host
	trees   bool                 // a pattern that is not the root can end in a slash
	slashes int                  // in the longest pattern
}

// A route is a pattern: its value, and which paths it selects.
type route[T any] struct {
	value   T
	wild    bool // it has a wildcard
	slash   bool // it can end in a slash
	slashes int  // in the pattern
}

// New returns a table of values by patterns that are valid together. The root is the value of requests that are of none.
func New[T any](root T, all map[string]T) *Table[T] {
	t := &Table[T]{mux: http.NewServeMux(), literal: http.NewServeMux(), routes: map[string]*route[T]{}}
	for pattern, value := range all {
		i := strings.Index(pattern, "/")
		before, p := pattern[:i], pattern[i:]
		host := before[strings.LastIndexAny(before, " \t")+1:]
		method := strings.TrimRight(before[:i-len(host)], " \t")
		single := strings.HasSuffix(p, "/{$}")
		slash := single || strings.HasSuffix(p, "/") || strings.HasSuffix(p, "...}")
		u := &route[T]{value, strings.Contains(p, "{"), slash, strings.Count(p, "/")}
		if i == 0 && u.slash && u.slashes == 1 && !single {
			t.root = u
		} else {
			t.trees = t.trees || u.slash
		}
		t.hosts = t.hosts || host != ""
		t.slashes = max(t.slashes, u.slashes)
		t.mux.Handle(pattern, http.NotFoundHandler())
		// With a host and CONNECT a ServeMux neither cleans nor redirects. So the method is the first part of the path. Its wildcard is
		// longer than each name in p.
		literal := http.MethodConnect + " " + asIs + host + "/" + cmp.Or(method, "{"+strings.Repeat("m", len(p))+"}") + p
		t.literal.Handle(literal, http.NotFoundHandler())
		t.routes[pattern], t.routes[literal] = u, u
	}
	if t.root == nil {
		t.root = &route[T]{value: root}
		t.mux.Handle("/", http.NotFoundHandler()) // otherwise the mux looks for other methods
	}
	return t
}

const asIs = "_" // begins each host of literal

// A Seen is how the routers further out take a request, where they have said so otherwise than in the request.
type Seen struct {
	Path, Method string // if empty, those of the request
	Mounted      bool   // Path is without a prefix
}

// Find returns the value of r, and others that it may have, depending on the router and its middleware, which can be outside or
// inside of the caller. Most requests have one, and it takes one look.
func (t *Table[T]) Find(r *http.Request, by Seen) (first T, more []T) {
	if plain(r, by) && (!t.hosts || r.Host == lowerName(r.Host)) {
		u, p := t.look(t.mux, r), r.URL.Path
		redirected := u.slashes > strings.Count(p, "/")
		if !t.trees || !redirected && (u.slash || !u.wild || t.mounted(r.Method, r.Host, p) == t.root) {
			return u.value, nil
		}
	}
	x := search[T]{Table: t, host: lowerName(r.Host)}
	x.all(r.Method, r.URL, by, true)
	x.add(x.look(x.mux, r), true)    // for a ServeMux further in, H and h. are not h
	if r.Method == http.MethodHead { // with GetHead of chi
		x.all(http.MethodGet, r.URL, by, false)
	}
	if by.Method != "" {
		x.all(by.Method, r.URL, by, false)
	}
	for _, u := range x.found[1:] {
		more = append(more, u.value)
	}
	return x.found[0].value, more
}

// look returns the route that a mux has for r.
func (t *Table[T]) look(mux *http.ServeMux, r *http.Request) *route[T] {
	_, pattern := mux.Handler(r)
	if u := t.routes[pattern]; u != nil {
		return u
	}
	return t.root
}

// plain reports whether every router takes r for the same.
func plain(r *http.Request, by Seen) bool {
	p := r.URL.Path
	if by.Path != "" && by.Path != p || by.Method != "" && by.Method != r.Method {
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

// A search looks for the routes of a request.
type search[T any] struct {
	*Table[T]
	host  string
	found []*route[T]
}

// A spelling is a path that a router may see, and whether requests without a route can have it there.
type spelling struct {
	path string
	root bool
}

// all adds the routes for every path that a router may see. The root counts only if root is set.
func (x *search[T]) all(method string, u *url.URL, by Seen, root bool) {
	x.add(x.look(x.mux, &http.Request{Method: method, Host: x.host, URL: u}), root)
	raw := cmp.Or(u.RawPath, u.Path, "/") // chi takes none for a slash
	clean := path.Clean(raw)              // by CleanPath of chi
	all := []spelling{{raw, root}, {clean, root && clean != strings.TrimRight(raw, "/")}, {u.Path, false}}
	if by.Path != "" {
		all = append(all, spelling{by.Path, root && !by.Mounted}, spelling{path.Clean(by.Path), false})
	}
	if strings.Contains(raw, "/..") { // CleanPath below a prefix, as by StripPrefix, leaves the prefix as it is
		left := x.slashes
		for i := 1; i < len(raw) && left > 0; i++ {
			if raw[i] == '/' {
				all = append(all, spelling{raw[:i] + path.Clean(raw[i:]), root})
				left--
			}
		}
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
			s = spelling{shorter, false}
		}
	}
}

// asIs returns the route for a path in a router that takes it as it is.
func (t *Table[T]) asIs(method, host, p string) *route[T] {
	probe := http.Request{Method: http.MethodConnect, Host: asIs + host, URL: &url.URL{Path: "/" + method + p}}
	if t.hosts {
		if u := t.look(t.literal, &probe); u != t.root {
			return u
		}
	}
	probe.Host = asIs
	return t.look(t.literal, &probe)
}

// mounted returns the route for a path with a slash at its end, if there is a pattern for just that, or the root. A
// router that is mounted in chi serves the path with the slash and without it.
func (t *Table[T]) mounted(method, host, p string) *route[T] {
	if u := t.asIs(method, host, p+"/"); u != t.root && u.slash && u.slashes == strings.Count(p, "/")+1 {
		return u
	}
	return t.root
}

// add adds a route, also the root if that counts.
func (x *search[T]) add(u *route[T], root bool) {
	if (root || u != x.root) && !slices.Contains(x.found, u) {
		x.found = append(x.found, u)
	}
}
