package server

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/gresil/gresil/core"
)

// A Pipeline is a number of plugins in the order of their phases. It is safe for
// concurrent use. The zero value has none.
type Pipeline struct {
	plugins []Plugin // from the outermost to the innermost
}

// New makes a pipeline, sorted by phase: the lower the further out, and among
// equals the first. A plugin that is nil, which is what a constructor returns
// with an error that nobody looked at, or that is given twice, is a
// [*core.ConfigError]; all of them are reported, joined.
func New(plugins ...Plugin) (*Pipeline, error) {
	p := &Pipeline{}
	var errs []error
	for i, plugin := range plugins {
		switch {
		case missing(plugin):
			errs = append(errs, &core.ConfigError{Field: fmt.Sprintf("server.New[%d]", i), Value: nil, Reason: "must be a plugin (did its constructor fail?)"})
		case slices.ContainsFunc(p.plugins, func(q Plugin) bool { return same(plugin, q) }):
			errs = append(errs, &core.ConfigError{Field: fmt.Sprintf("server.New[%d]", i), Value: plugin.Name(), Reason: "must not be in the pipeline twice"})
		default:
			p.plugins = append(p.plugins, plugin)
		}
	}
	if errs != nil {
		return nil, errors.Join(errs...)
	}
	slices.SortStableFunc(p.plugins, func(a, b Plugin) int { return cmp.Compare(a.Phase(), b.Phase()) })
	return p, nil
}

// Handler returns next with the plugins around it. It fits chi's Use and With.
func (p *Pipeline) Handler(next http.Handler) http.Handler {
	for _, plugin := range slices.Backward(p.plugins) {
		next = plugin.Handler(next)
	}
	return next
}

// Close closes the plugins from the outermost to the innermost, and with them
// every other pipeline they are part of, and returns their errors joined. Close
// it after the server was shut down.
func (p *Pipeline) Close() error {
	var errs []error
	for _, plugin := range p.plugins {
		errs = append(errs, plugin.Close())
	}
	return errors.Join(errs...)
}
