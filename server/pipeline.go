package server

import (
	"errors"
	"net/http"
	"strings"

	"github.com/gresil/gresil/internal/phase"
	"github.com/gresil/gresil/internal/routes"
)

// A Pipeline has plugins in the order of their phases. It is safe for concurrent use. The zero value has no plugin.
type Pipeline struct {
	plugins phase.Places[Phase, Plugin] // from the outermost to the innermost
	routes  *routes.Table[*routed]
}

// New makes a pipeline. Lower phases are outermost; plugins of one phase keep the order of the arguments. For each plugin that is nil or
// given twice, and each invalid pattern of a [Route], it returns a *core.ConfigError, joined.
func New(plugins ...Plugin) (*Pipeline, error) {
	sorted, all, errs := phase.Sort("server", plugins, nil)
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	of := map[string]*routed{}
	for _, rt := range all {
		of[rt.Pattern] = rt
	}
	return &Pipeline{sorted, routes.New(nil, of)}, nil
}

// Handler returns next with the plugins around it. It fits Use and With of chi.
func (p *Pipeline) Handler(next http.Handler) http.Handler {
	return phase.Wrap(p.plugins, next, Plugin.Handler, func(places phase.Places[Phase, Plugin], next http.Handler) http.Handler {
		s := &selection{p.routes, places, make([]http.Handler, len(places)), next}
		for i, at := range places {
			s.handlers[i] = at.Plugin.Handler(step{s, i})
		}
		return s
	})
}

// Check returns a line for each probable mistake in the order of the plugins; nil if there is none. The pipeline works all the same.
func (p *Pipeline) Check() []string { return p.plugins.Inversions("server") }

// String lists the plugins from the outermost to the innermost, as in
// "Admission ratelimit.Server(api) > Handling timeout.Server(default)".
func (p *Pipeline) String() string { return strings.Join(p.plugins.Titles("server"), " > ") }
