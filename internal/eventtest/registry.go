// Package eventtest lets tests listen to mechanisms.
package eventtest

import (
	"context"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/registry"
)

// Registry returns a registry that calls f for each event of the instances in it, those of single calls too.
func Registry(f func(ctx context.Context, e registry.Event)) *core.Registry {
	r := &registry.Registry{}
	r.Watch(func(e registry.Entry, c registry.Change) {
		if c == registry.Added && e.Source.Events != nil {
			e.Source.Events(true, f)
		}
	})
	return (*core.Registry)(r)
}

// Source returns the report of the only instance in a registry.
func Source(r *core.Registry) registry.Source { return (*registry.Registry)(r).Entries()[0].Source }
