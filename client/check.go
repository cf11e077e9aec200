package client

import (
	"fmt"
	"strings"

	"github.com/gresil/gresil/internal/phase"
)

// Check returns what is wrong with the pipeline, one line each: plugins that
// cannot be used, and pairs that an overridden phase put the other way round
// than they belong. It returns nil when all is well. A pair that is meant to be
// that way round works; the line is there for those who did not mean it.
func (t *Transport) Check() []string {
	var found []string
	if t.err != nil {
		found = strings.Split(t.err.Error(), "\n")
	}
	return append(found, phase.Inversions("client", t.plugins)...)
}

// String lists the plugins from the outermost to the base, each with its phase,
// as in "Attempts *retry.Plugin(default) > Attempt *breaker.Client(default) >
// *http.Transport".
func (t *Transport) String() string {
	return strings.Join(append(phase.Titles(t.plugins), fmt.Sprintf("%T", t.base)), " > ")
}
