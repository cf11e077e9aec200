package server

import (
	"strings"

	"github.com/gresil/gresil/internal/phase"
)

// Check returns the pairs that an overridden phase put the other way round than
// they belong, one line each, or nil when all is well. A pair that is meant to be
// that way round works; the line is there for those who did not mean it.
func (p *Pipeline) Check() []string {
	return phase.Inversions("server", p.plugins)
}

// String lists the plugins from the outermost to the innermost, each with its
// phase, as in "Admission *ratelimit.Server(api) > Handling *timeout.Server(default)".
func (p *Pipeline) String() string {
	return strings.Join(phase.Titles(p.plugins), " > ")
}
