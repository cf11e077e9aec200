package metrics

import "github.com/gresil/gresil/core"

// mechanisms returns the entry itself, or, if its instance is composed, an entry of the
// same kind, name and tags for each of its mechanisms.
func mechanisms(e core.Entry) []core.Entry {
	composed, ok := e.Instance.(core.Composed)
	if !ok {
		return []core.Entry{e}
	}
	var all []core.Entry
	for _, m := range composed.Mechanisms() {
		e.Instance = m
		all = append(all, e)
	}
	return all
}
