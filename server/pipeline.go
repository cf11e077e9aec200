package server

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/gresil/gresil/internal/phase"
)

// A Pipeline is a number of plugins in the order of their phases. It is safe for
// concurrent use. The zero value has none.
type Pipeline struct {
	plugins []Plugin // from the outermost to the innermost
}

// New makes a pipeline, sorted by phase: lower phases are outermost; ties keep argument
// order. A plugin that is nil, as a constructor returns it with an error, or that is
// given twice, is a [*core.ConfigError]; all of them are reported, joined.
func New(plugins ...Plugin) (*Pipeline, error) {
	sorted, errs := phase.Sort("server", plugins)
	if errs != nil {
		return nil, errors.Join(errs...)
	}
	return &Pipeline{sorted}, nil
}

// Handler returns next with the plugins around it. It fits chi's Use and With.
// With a timeout among the plugins it does not: a handler that ignores its context
// would outlive chi's hold on the request. Then put it around the whole router.
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
	return phase.Close(p.plugins)
}

// Check returns a line for each pair of plugins that an overridden phase put into the
// opposite order, or nil. Such a pair works; the order is probably a mistake.
func (p *Pipeline) Check() []string {
	return phase.Inversions("server", p.plugins)
}

// String lists the plugins from the outermost to the innermost, each with its
// phase, as in "Admission *ratelimit.Server(api) > Handling *timeout.Server(default)".
func (p *Pipeline) String() string {
	return strings.Join(phase.Titles(p.plugins), " > ")
}
