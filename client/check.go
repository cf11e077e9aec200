package client

import (
	"fmt"
	"strings"

	"github.com/gresil/gresil/internal/phase"
)

// Check reports probable mistakes in the pipeline, one line each: plugins that cannot be
// used, and pairs whose order an overridden phase has reversed. Such a pair works, if it
// is intended. Without mistakes, Check returns nil.
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
