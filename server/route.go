package server

import (
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/gresil/gresil/internal/muxpattern"
)

// Route returns a plugin that applies plugins to the requests that pattern selects, a pattern of [http.ServeMux]. In a pipeline
// each of them is in its own phase.
//
// The Routes of a pipeline are like the handlers of one ServeMux: to each request the Route with the most specific pattern
// applies, and no other. "/" selects the requests that no other Route does. So this gives exports a minute instead of 5 seconds:
//
//	server.New(server.Route("/", seconds), server.Route("POST /export", minute), limits)
//
// A plugin that is not in a Route, as limits here, applies to every request. Outside of a pipeline, Handler of a Route panics
// if the pattern is invalid, as ServeMux.Handle does.
//
// A pattern selects all spellings of a path that can reach its handler: those that a ServeMux redirects, as //export, and
// those that middleware such as StripSlashes, CleanPath and URLFormat of chi changes further in, as /export/ and /export.json.
func Route(pattern string, plugins ...Plugin) Plugin {
	return &route{pattern, slices.Clone(plugins)}
}

type route struct {
	pattern string
	plugins []Plugin
}

// Phase is that of the outermost plugin.
func (rt *route) Phase() (outermost Phase) {
	for i, p := range rt.plugins {
		if i == 0 || p.Phase() < outermost {
			outermost = p.Phase()
		}
	}
	return outermost
}

func (rt *route) Handler(next http.Handler) http.Handler {
	p, err := New(rt)
	if err != nil {
		panic(err)
	}
	return p.Handler(next)
}

func (rt *route) String() string { return fmt.Sprintf("server.Route(%s)", rt.pattern) }

func patterns(all []*route) []string {
	names := make([]string, len(all))
	for i, rt := range all {
		names[i] = rt.pattern
	}
	return names
}

// routes find the Route of a request.
type routes struct {
	mux       *http.ServeMux
	byPattern map[string]*route
}

// newRoutes returns the routes of patterns that are valid together.
func newRoutes(all []*route) *routes {
	rs := &routes{http.NewServeMux(), map[string]*route{}}
	for _, rt := range all {
		rs.byPattern[rt.pattern] = rt
		rs.mux.Handle(rt.pattern, http.NotFoundHandler())
	}
	muxpattern.Handle(rs.mux, "/") // unless there is one for all paths: otherwise the mux looks for other methods
	return rs
}

// find returns the Route of r, or nil. It goes by the pattern that the mux has found, not by its handler, which can be a redirect.
func (rs *routes) find(r *http.Request) *route {
	if host := strings.TrimSuffix(strings.ToLower(r.Host), "."); host != r.Host {
		r = &http.Request{Method: r.Method, Host: host, URL: r.URL}
	}
	_, found := rs.mux.Handler(r)
	rt := rs.byPattern[found]
	if rt != nil && !strings.HasSuffix(found, "/") && !strings.HasSuffix(found, "...}") {
		return rt
	}
	// A pattern of many paths, or none: there can be one for the path without what middleware leaves out.
	if bare := undecorated(r.URL.Path); bare != r.URL.Path || r.URL.RawPath != "" {
		_, found := rs.mux.Handler(&http.Request{Method: r.Method, Host: r.Host, URL: &url.URL{Path: bare}})
		if of := rs.byPattern[found]; of != nil {
			return of
		}
	}
	return rt
}

// undecorated returns a path without the slashes and extensions at its end.
func undecorated(p string) string {
	for {
		bare := strings.TrimRight(p, "/")
		bare = strings.TrimSuffix(bare, path.Ext(bare))
		if bare == p || bare == "" {
			return p
		}
		p = bare
	}
}

// A selection is the handler of the plugins of Routes that are next to each other.
type selection struct {
	routes   *routes
	handlers map[*route]http.Handler
	next     http.Handler
}

// of returns the handler of a Route, which can be nil.
func (s *selection) of(rt *route) http.Handler {
	if h := s.handlers[rt]; h != nil {
		return h
	}
	return s.next
}

func (s *selection) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.of(s.routes.find(r)).ServeHTTP(w, r)
}
