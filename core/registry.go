package core

import (
	"iter"

	"github.com/gresil/gresil/internal/registry"
)

// A Registry holds mechanisms by kind and name, for metrics, logs, settings and pages. Set it in the Config of each mechanism.
// The zero value is ready to use.
type Registry registry.Registry

// An Entry is a mechanism in a [Registry].
type Entry struct {
	Kind     string // the name of its package, as "retry"
	Name     string // unique within its kind
	Instance any    // such as a *retry.Policy
}

// All returns the entries as they are now, sorted by kind and name.
func (r *Registry) All() iter.Seq[Entry] {
	all := (*registry.Registry)(r).Entries()
	return func(yield func(Entry) bool) {
		for _, e := range all {
			if !yield(Entry{Kind: e.Kind, Name: e.Name, Instance: e.Instance}) {
				return
			}
		}
	}
}

// Lookup returns the mechanism of type T that has a name, for example to change its Config:
//
//	policy, ok := core.Lookup[*retry.Policy](registry, "search")
func Lookup[T any](r *Registry, name string) (T, bool) {
	for e := range r.All() {
		if v, ok := e.Instance.(T); ok && e.Name == name {
			return v, true
		}
	}
	var none T
	return none, false
}
