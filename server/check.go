package server

import (
	"fmt"
	"strings"
)

// Check returns the pairs that an overridden phase put the other way round than
// they belong, one line each, or nil when all is well. A pair that is meant to be
// that way round works; the line is there for those who did not mean it.
func (p *Pipeline) Check() []string {
	var found []string
	for i, outer := range p.plugins {
		for _, inner := range p.plugins[i+1:] {
			if o, n := bare(outer), bare(inner); o.Phase() > n.Phase() {
				found = append(found, fmt.Sprintf("server: %s is outside %s, which belongs outside of it (%v before %v)", title(o), title(n), n.Phase(), o.Phase()))
			}
		}
	}
	return found
}

// String lists the plugins from the outermost to the innermost, each with its
// phase, as in "Plugins *ratelimit.Server(api) > Call *timeout.Server(default)".
func (p *Pipeline) String() string {
	parts := make([]string, len(p.plugins))
	for i, plugin := range p.plugins {
		parts[i] = plugin.Phase().String() + " " + title(bare(plugin))
	}
	return strings.Join(parts, " > ")
}

func title(p Plugin) string { return fmt.Sprintf("%T(%s)", p, p.Name()) }
