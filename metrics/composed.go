package metrics

import (
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/cooldown"
)

// mechanisms returns the entry itself, or, if its instance is composed, an entry of the
// same kind, name and tags for each of its mechanisms. A cooldown, which is part of a
// client limiter, keeps its own kind.
func mechanisms(e core.Entry) []core.Entry {
	composed, ok := e.Instance.(core.Composed)
	if !ok {
		return []core.Entry{e}
	}
	var all []core.Entry
	for _, m := range composed.Mechanisms() {
		part := e
		part.Instance = m
		if _, ok := m.(*cooldown.Cooldown); ok {
			part.Kind = "cooldown"
		}
		all = append(all, part)
	}
	return all
}
