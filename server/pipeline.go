package server

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/identity"
	"github.com/gresil/gresil/internal/muxpattern"
	"github.com/gresil/gresil/internal/phase"
)

// A Pipeline is plugins in the order of their phases. It is safe for concurrent use. The zero value has none.
type Pipeline struct {
	plugins []placed // from the outermost to the innermost
	routes  *routes
}

// New makes a pipeline. Lower phases are outermost; plugins of one phase keep the order of the arguments. A plugin that is nil
// or given twice, and an invalid pattern of a [Route], is a *core.ConfigError; all of them are reported, joined.
func New(plugins ...Plugin) (*Pipeline, error) {
	p := &Pipeline{}
	var errs []error
	var all []*route
	for i, plugin := range plugins {
		field := fmt.Sprintf("server.New[%d]", i)
		rt, ok := phase.Bare(plugin).(*route)
		if !ok {
			errs = append(errs, p.add(field, plugin, nil))
			continue
		}
		all = append(all, rt)
		for j, inner := range rt.plugins {
			if over, ok := plugin.(placed); ok {
				inner = InPhase(inner, over.phase)
			}
			errs = append(errs, p.add(fmt.Sprintf("%s[%d]", field, j), inner, rt))
		}
		if reason := muxpattern.Problem(patterns(all)); reason != "" {
			errs = append(errs, &core.ConfigError{Field: field, Value: fmt.Sprintf("%q", rt.pattern), Reason: reason})
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	slices.SortStableFunc(p.plugins, func(a, b placed) int { return cmp.Compare(a.phase, b.phase) })
	p.routes = newRoutes(all)
	return p, nil
}

// add adds a plugin, of a route if that is not nil, unless it is missing or there already.
func (p *Pipeline) add(field string, plugin Plugin, of *route) error {
	if phase.Missing(plugin) {
		return &core.ConfigError{Field: field, Reason: "must be a plugin (did its constructor fail?)"}
	}
	if _, ok := phase.Bare(plugin).(*route); ok {
		return &core.ConfigError{Field: field, Value: phase.Title(plugin), Reason: "must not be a Route in a Route"}
	}
	for _, other := range p.plugins {
		// Of two Routes only one applies, so both can have the plugin.
		if (other.route == of || other.route == nil || of == nil) && identity.Same(phase.Bare(plugin), phase.Bare(other.Plugin)) {
			return &core.ConfigError{Field: field, Value: phase.Title(plugin), Reason: "must not be in the pipeline twice"}
		}
	}
	p.plugins = append(p.plugins, placed{plugin, plugin.Phase(), of})
	return nil
}

// Handler returns next with the plugins around it. It fits Use and With of chi.
func (p *Pipeline) Handler(next http.Handler) http.Handler {
	for outer := p.plugins; len(outer) > 0; {
		last := outer[len(outer)-1]
		if last.route == nil {
			next, outer = last.Handler(next), outer[:len(outer)-1]
			continue
		}
		// A request looks for its Route once for all plugins up to the next one that has none.
		choice := &selection{p.routes, map[*route]http.Handler{}, next}
		for ; len(outer) > 0 && outer[len(outer)-1].route != nil; outer = outer[:len(outer)-1] {
			last := outer[len(outer)-1]
			choice.handlers[last.route] = last.Handler(choice.of(last.route))
		}
		next = choice
	}
	return next
}

// Check returns a line for each probable mistake in the order of the plugins, or nil. The pipeline works all the same.
func (p *Pipeline) Check() (found []string) {
	for i, outer := range p.plugins {
		for _, inner := range p.plugins[i+1:] {
			if outer.route == inner.route || outer.route == nil || inner.route == nil {
				found = append(found, phase.Inversions("server", []Plugin{outer.Plugin, inner.Plugin})...)
			}
		}
	}
	return found
}

// String lists the plugins from the outermost to the innermost, as in
// "Admission ratelimit.Server(api) > Handling timeout.Server(default)".
func (p *Pipeline) String() string {
	titles := make([]string, len(p.plugins))
	for i, plugin := range p.plugins {
		titles[i] = plugin.phase.String() + " " + phase.Title(plugin.Plugin)
		if plugin.route != nil {
			titles[i] += " of " + plugin.route.String()
		}
	}
	return strings.Join(titles, " > ")
}
