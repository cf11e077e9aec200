package server

import (
	"strings"

	"github.com/gresil/gresil/internal/phase"
)

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
