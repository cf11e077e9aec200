package client

import (
	"fmt"
	"strings"
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
	for i, outer := range t.plugins {
		for _, inner := range t.plugins[i+1:] {
			if o, n := bare(outer), bare(inner); o.Phase() > n.Phase() {
				found = append(found, fmt.Sprintf("client: %s is outside %s, which belongs outside of it (%v before %v)", title(o), title(n), n.Phase(), o.Phase()))
			}
		}
	}
	return found
}

// String lists the plugins from the outermost to the base, each with its phase,
// as in "State *retry.Plugin(default) > Engine *breaker.Client(default) >
// *http.Transport".
func (t *Transport) String() string {
	var s strings.Builder
	for _, p := range t.plugins {
		fmt.Fprintf(&s, "%v %s > ", p.Phase(), title(bare(p)))
	}
	fmt.Fprintf(&s, "%T", t.base)
	return s.String()
}

func title(p Plugin) string { return fmt.Sprintf("%T(%s)", p, p.Name()) }
