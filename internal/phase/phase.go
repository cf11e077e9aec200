// Package phase puts plugins in order, those of servers and those of clients alike.
package phase

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"path"
	"reflect"
	"runtime"
	"slices"
	"strconv"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/identity"
)

// A Phase is server.Phase or client.Phase.
type Phase interface {
	~int
	fmt.Stringer
}

// A Plugin has the method that server and client plugins have in common.
type Plugin[P Phase] interface{ Phase() P }

// Bare returns the plugin that InPhase has placed, so that its own phase is seen.
func Bare[T any](p T) T {
	for {
		placed, ok := any(p).(interface{ Bare() T })
		if !ok {
			return p
		}
		p = placed.Bare()
	}
}

// A Route has the plugins for the requests that a pattern of http.ServeMux selects. It is part of a plugin.
type Route[P Phase, T Plugin[P]] struct {
	Pattern string
	Plugins []T
}

// Self returns r, which is how a Route is found in a plugin.
func (r *Route[P, T]) Self() *Route[P, T] { return r }

// Phase is that of the outermost plugin.
func (r *Route[P, T]) Phase() (outermost P) {
	for i, p := range r.Plugins {
		if i == 0 || p.Phase() < outermost {
			outermost = p.Phase()
		}
	}
	return outermost
}

func routeOf[P Phase, T Plugin[P]](p T) *Route[P, T] {
	if r, ok := any(Bare(p)).(interface{ Self() *Route[P, T] }); ok {
		return r.Self()
	}
	return nil
}

// A Place is a plugin in a pipeline.
type Place[P Phase, T Plugin[P]] struct {
	Plugin T // not placed
	Phase  P
	Route  *Route[P, T] // nil: for every request
	inside int          // the number of places further in, in other pipelines: those of one pipeline have the same
}

// Places are plugins from the outermost to the innermost.
type Places[P Phase, T Plugin[P]] []Place[P, T]

// together reports whether a request can pass both places: of two Routes of one pipeline only one applies, and of Routes of two hosts.
func (p Place[P, T]) together(q Place[P, T]) bool {
	if p.Route == q.Route || p.Route == nil || q.Route == nil {
		return true
	}
	one, other := hostOf(p.Route.Pattern), hostOf(q.Route.Pattern)
	return p.inside != q.inside && (one == "" || other == "" || one == other)
}

// Pairs calls f with each outer and inner plugin that a request can pass both.
func (ps Places[P, T]) Pairs(f func(outer, inner Place[P, T])) {
	for i, outer := range ps {
		for _, inner := range ps[i+1:] {
			if outer.together(inner) {
				f(outer, inner)
			}
		}
	}
}

// Sort returns plugins by phase, those of a Route one by one, and the Routes. Lower phases are outermost; ties keep argument order.
// The error is about each plugin that is missing, given twice, or one of within, which are those of a pipeline inside of this one,
// and about each pattern that is invalid. pkg is for the messages.
func Sort[P Phase, T Plugin[P]](pkg string, plugins []T, within Places[P, T]) (sorted Places[P, T], routes []*Route[P, T], errs []error) {
	var patterns []string
	for i, p := range plugins {
		field := fmt.Sprintf("%s.New[%d]", pkg, i)
		route := routeOf[P, T](p)
		if route == nil {
			errs = sorted.add(errs, field, p, nil, within)
			continue
		}
		routes, patterns = append(routes, route), append(patterns, route.Pattern)
		n := len(sorted)
		for j, inner := range route.Plugins {
			errs = sorted.add(errs, fmt.Sprintf("%s[%d]", field, j), inner, route, within)
		}
		if _, placed := any(p).(interface{ Bare() T }); placed {
			for j := range sorted[n:] {
				sorted[n+j].Phase = p.Phase()
			}
		}
		if reason := Problem(patterns); reason != "" {
			errs = append(errs, &core.ConfigError{Field: field, Value: fmt.Sprintf("%q", route.Pattern), Reason: reason})
		}
	}
	slices.SortStableFunc(sorted, func(a, b Place[P, T]) int { return cmp.Compare(a.Phase, b.Phase) })
	return sorted, routes, errs
}

// add adds a plugin that can be used, and otherwise an error.
func (ps *Places[P, T]) add(errs []error, field string, p T, route *Route[P, T], within Places[P, T]) []error {
	bare := Bare(p)
	if identity.Missing(bare) {
		return append(errs, &core.ConfigError{Field: field, Reason: "must be a plugin (did its constructor fail?)"})
	}
	var reason string
	place := Place[P, T]{bare, p.Phase(), route, len(within)}
	same := func(q Place[P, T]) bool { return place.together(q) && identity.Same(bare, q.Plugin) }
	switch {
	case routeOf[P, T](p) != nil:
		reason = "must not be a Route in a Route"
	case slices.ContainsFunc(*ps, same):
		reason = "must not be in the pipeline twice"
	case slices.ContainsFunc(within, same):
		reason = "must not be in the pipeline and in its base"
	default:
		*ps = append(*ps, place)
		return errs
	}
	return append(errs, &core.ConfigError{Field: field, Value: place.String(), Reason: reason})
}

// Wrap puts plugins around next: wrap applies one of them, and choose those of Routes that are next to each other, so that a request
// looks for its Route once for all of them.
func Wrap[P Phase, T Plugin[P], H any](ps Places[P, T], next H, wrap func(T, H) H, choose func(routed Places[P, T], next H) H) H {
	for len(ps) > 0 {
		last := len(ps) - 1
		if ps[last].Route == nil {
			next, ps = wrap(ps[last].Plugin, next), ps[:last]
			continue
		}
		for last > 0 && ps[last-1].Route != nil {
			last--
		}
		next, ps = choose(ps[last:], next), ps[:last]
	}
	return next
}

// Inversions returns the pairs of plugins that InPhase has put the other way round than they belong, one line each.
func (ps Places[P, T]) Inversions(pkg string) (found []string) {
	ps.Pairs(func(outer, inner Place[P, T]) {
		if o, n := outer.Plugin.Phase(), inner.Plugin.Phase(); o > n {
			found = append(found, fmt.Sprintf("%s: %s is outside %s, which belongs outside of it (%v before %v)", pkg, outer, inner, n, o))
		}
	})
	return found
}

// Titles returns each plugin with its phase and Route, as in "Attempts retry.Client(api) of client.Route(/)".
func (ps Places[P, T]) Titles(pkg string) []string {
	titles := make([]string, len(ps))
	for i, p := range ps {
		titles[i] = p.Phase.String() + " " + p.String()
		if p.Route != nil {
			titles[i] += " of " + pkg + ".Route(" + p.Route.Pattern + ")"
		}
	}
	return titles
}

// String returns the text of the plugin, or its type and its name, as in "*client_test.stub(good)".
func (p Place[P, T]) String() string {
	switch plugin := any(p.Plugin).(type) {
	case fmt.Stringer:
		return plugin.String()
	case interface{ Name() string }:
		return fmt.Sprintf("%T(%s)", plugin, plugin.Name())
	}
	return fmt.Sprintf("%T", p.Plugin)
}

// FuncName returns the name of a function, as in "middleware.RequestID".
func FuncName(f any) string { return path.Base(runtime.FuncForPC(reflect.ValueOf(f).Pointer()).Name()) }

// A Mux finds the Route of a request.
type Mux[P Phase, T Plugin[P]] struct {
	mux *http.ServeMux
	of  map[string]*Route[P, T]
}

// NewMux makes a Mux of Routes whose patterns are valid together.
func NewMux[P Phase, T Plugin[P]](routes []*Route[P, T]) Mux[P, T] {
	m := Mux[P, T]{http.NewServeMux(), map[string]*Route[P, T]{}}
	for _, r := range routes {
		m.of[r.Pattern] = r
		m.mux.Handle(r.Pattern, http.NotFoundHandler())
	}
	return m
}

// Find returns the Route of a request, or nil. It goes by the pattern that the mux has found, not by its handler, which can be a
// redirect.
func (m Mux[P, T]) Find(r *http.Request) *Route[P, T] {
	_, pattern := m.mux.Handler(r)
	return m.of[pattern]
}

// String returns the name of p, or of the nearest outer one and the distance to it, as in "Admission+10".
func String[P Phase](p P, names map[P]string) string {
	for _, q := range slices.Backward(slices.Sorted(maps.Keys(names))) {
		switch {
		case p == q:
			return names[q]
		case p > q:
			return names[q] + "+" + strconv.Itoa(int(p-q))
		}
	}
	return "Phase(" + strconv.Itoa(int(p)) + ")"
}
