package metrics

import (
	"iter"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gresil/gresil/core"
)

// kinds returns the kinds of instances that are exported. A new mechanism has a line here.
func kinds(c *Collector, cfg Config) (all []kind) {
	for _, of := range []func(*Collector, Config) []kind{
		retryKinds,
		limiterKinds,
		breakerKinds,
		timeoutKinds,
		cooldownKinds,
		bulkheadKinds,
		reporterKinds,
		storeKinds,
		eventKinds,
	} {
		all = append(all, of(c, cfg)...)
	}
	return all
}

// A kind has the series of the instances of one type.
type kind struct {
	name    string // in the registry; if empty, instances of any kind are exported
	part    bool   // has this name also as a part of an instance of another kind
	hooks   bool   // collect returns the number of their panics
	is      func(instance any) bool
	collect func(w *writer, e core.Entry) (panics uint64)
	attach  func(e core.Entry) (detach func()) // nil: collect is enough
}

// kindOf returns a kind for the instances of type T, which have hooks.
func kindOf[T any](name string, collect func(w *writer, x T) (panics uint64)) kind {
	return kind{
		name: name, hooks: true,
		is:      func(instance any) bool { _, ok := instance.(T); return ok },
		collect: func(w *writer, e core.Entry) uint64 { return collect(w, e.Instance.(T)) },
	}
}

// A vector has series with the label name. Hooks on the instances update it.
type vector interface {
	prometheus.Collector
	DeletePartialMatch(labels prometheus.Labels) int
}

// attached returns k with hooks on the instances, which are of type T. When they are
// removed, their series are removed from the vectors.
func attached[T any](k kind, attach func(name string, x T) (cancel func()), vectors ...vector) kind {
	k.attach = func(e core.Entry) func() {
		cancel := attach(e.Name, e.Instance.(T))
		return func() {
			cancel()
			for _, v := range vectors {
				v.DeletePartialMatch(prometheus.Labels{"name": e.Name})
			}
		}
	}
	return k
}

// mechanisms returns the entry itself, or, if its instance is composed, an entry of the
// same kind, name and tags for each of its mechanisms, with the kind that exports it. An
// instance is exported only under its own name of a kind, since the series of two kinds
// with a name in common would be the same.
func (c *Collector) mechanisms(e core.Entry) iter.Seq2[*kind, core.Entry] {
	return func(yield func(*kind, core.Entry) bool) {
		instances := []any{e.Instance}
		composed, ok := e.Instance.(core.Composed)
		if ok {
			instances = composed.Mechanisms()
		}
		for _, instance := range instances {
			k := c.kindOf(instance)
			if k == nil {
				continue
			}
			m := e
			m.Instance = instance
			if ok && k.part {
				m.Kind = k.name
			}
			if (k.name == "" || k.name == m.Kind) && !yield(k, m) {
				return
			}
		}
	}
}

// kindOf returns the kind of an instance, or nil.
func (c *Collector) kindOf(instance any) *kind {
	for i := range c.kinds {
		if c.kinds[i].is(instance) {
			return &c.kinds[i]
		}
	}
	return nil
}
