package server

import (
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/gresil/gresil/internal/phase"
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
	return &route{routed{Pattern: pattern, Plugins: slices.Clone(plugins)}}
}

type routed = phase.Route[Phase, Plugin]

type route struct{ routed }

func (rt *route) Handler(next http.Handler) http.Handler {
	p, err := New(rt)
	if err != nil {
		panic(err)
	}
	return p.Handler(next)
}

func (rt *route) String() string { return "server.Route(" + rt.Pattern + ")" }

// find returns the Route of r, or nil.
func (p *Pipeline) find(r *http.Request) *routed {
	if host := strings.TrimSuffix(strings.ToLower(r.Host), "."); host != r.Host {
		r = &http.Request{Method: r.Method, Host: host, URL: r.URL}
	}
	found := p.mux.Find(r)
	if found != nil && !strings.HasSuffix(found.Pattern, "/") && !strings.HasSuffix(found.Pattern, "...}") {
		return found
	}
	// A pattern of many paths, or none: there can be one for the path without what middleware leaves out.
	if bare := undecorated(r.URL.Path); bare != r.URL.Path || r.URL.RawPath != "" {
		if of := p.mux.Find(&http.Request{Method: r.Method, Host: r.Host, URL: &url.URL{Path: bare}}); of != nil {
			return of
		}
	}
	return found
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
	pipeline *Pipeline
	of       map[*routed]http.Handler
	next     http.Handler
}

func (s *selection) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h, ok := s.of[s.pipeline.find(r)]
	if !ok {
		h = s.next
	}
	h.ServeHTTP(w, r)
}
