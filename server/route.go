package server

import (
	"context"
	"net/http"
	"slices"

	"github.com/gresil/gresil/internal/identity"
	"github.com/gresil/gresil/internal/phase"
	"github.com/gresil/gresil/internal/routes"
)

// Route returns a plugin that applies plugins to the requests that pattern selects. It is a pattern of [http.ServeMux]. In a pipeline, each
// of the plugins is in its own phase.
//
// The Routes of a pipeline are like the handlers of one ServeMux: only the Route with the most specific pattern applies. "/" selects the
// requests that no other Route selects. So this gives exports a minute instead of 5 seconds:
//
//	server.New(server.Route("/", seconds), server.Route("POST /export", minute), limits)
//
// A plugin that is not in a Route, such as limits here, applies to every request. If the pattern is invalid, [New] returns an error, and
// the Handler method of a Route outside of a pipeline panics, as ServeMux.Handle does.
//
// A pattern selects all spellings of a path that can reach its handler: those that a ServeMux redirects, such as //export, and those that
// inner StripSlashes, CleanPath and URLFormat of chi rewrite, such as /export/ and /export.json. If a request can reach the handlers of
// several Routes, depending on the router, the plugins of each apply. So POST /export/ has both timeouts; and so has HEAD /export if the
// pattern is GET /export, since not every router takes a HEAD for a GET. If http.StripPrefix or chi's PathRewrite is further in, the path
// before it counts. Put middleware of your own that changes the path or the method outside of the pipeline; it must change the request
// itself.
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

// A selection is a handler that chooses among the plugins of adjacent Routes.
type selection struct {
	routes   *routes.Table[*routed]
	places   phase.Places[Phase, Plugin]
	handlers []http.Handler // of places
	next     http.Handler
}

// chosen are the Routes of a request, usually one or none.
type chosen struct {
	first *routed
	more  []*routed
}

func (c chosen) has(rt *routed) bool { return rt == c.first || slices.Contains(c.more, rt) }

func (s *selection) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var c chosen
	c.first, c.more = s.routes.Find(r, routes.Seen{})
	if c.more != nil || r.Context().Value(s) != nil { // a handler serves the request again
		r = r.WithContext(context.WithValue(r.Context(), s, c))
	}
	s.pass(w, r, 0, c)
}

// pass serves a request with the first plugin of its Routes, from a place on, that it has not passed yet.
func (s *selection) pass(w http.ResponseWriter, r *http.Request, from int, c chosen) {
	for i := from; i < len(s.places); i++ {
		same := func(q phase.Place[Phase, Plugin]) bool {
			return c.has(q.Route) && identity.Same(q.Plugin, s.places[i].Plugin)
		}
		if c.has(s.places[i].Route) && (c.more == nil || !slices.ContainsFunc(s.places[:i], same)) {
			s.handlers[i].ServeHTTP(w, r)
			return
		}
	}
	s.next.ServeHTTP(w, r)
}

// A step is the handler that a plugin wraps: the next plugins.
type step struct {
	*selection
	i int
}

func (s step) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c, ok := r.Context().Value(s.selection).(chosen)
	if !ok {
		c.first = s.places[s.i].Route
	}
	s.pass(w, r, s.i+1, c)
}
