package core

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
)

// Lookup returns the instance that has a name within a kind, if there is one and it
// is a T, as in
//
//	policy, ok := core.Lookup[*retry.Policy](registry, "retry", "payments")
func Lookup[T any](r *Registry, kind, name string) (instance T, ok bool) {
	has, _ := r.Get(kind, name)
	instance, ok = has.(T)
	return instance, ok
}

// SetConfig gives another config to the instance that has a name within a kind,
// through its method SetConfig(C) error, and tells the subscribers
// ([Reconfigured]). The state of the instance is kept. When the instance refuses the
// config, it keeps the old one, and its error is returned. That there is no such
// instance, that it takes no C, or that it has lost its name meanwhile, so that the
// one that has it now may have another config, is a [*ConfigError].
func SetConfig[C any](r *Registry, kind, name string, cfg C) error {
	has, _ := r.Get(kind, name)
	instance, err := configurable[C](kind, name, has)
	if err != nil {
		return err
	}
	err = instance.SetConfig(cfg)
	told := r.reconfigured(kind, name, has, err)
	r.changes.Drain(r.tell)
	if err == nil && !told {
		return notSet(kind, name, "was removed or replaced meanwhile")
	}
	return err
}

type configured[C any] interface{ SetConfig(cfg C) error }

// configurable returns what has a name, or nil, as what takes a C.
func configurable[C any](kind, name string, has any) (configured[C], error) {
	instance, ok := has.(configured[C])
	switch {
	case has == nil:
		return nil, notSet(kind, name, "is not registered")
	case !ok:
		return nil, notSet(kind, name, fmt.Sprintf("is a %T, which has no method SetConfig(%s) error", has, reflect.TypeFor[C]()))
	}
	return instance, nil
}

func notSet(kind, name, reason string) error {
	return &ConfigError{Field: "core.SetConfig", Value: fmt.Sprintf("(%q, %q)", kind, name), Reason: reason}
}

// reconfigured queues the news of a config, if the instance still has its name.
func (r *Registry) reconfigured(kind, name string, instance any, err error) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.entries[entryKey{kind, name}] != instance {
		return false
	}
	r.changeLocked(RegistryEvent{Kind: Reconfigured, Entry: r.entryLocked(kind, name, instance), Err: err})
	return true
}

// Configs are named configs of one mechanism that instances share: C is its Config,
// as retry.Config. One can be derived from another, and follows it when that is
// changed; so do the instances that follow one ([FollowConfig], [Configs.Follow]). The
// empty name is the base of all: the zero C until it is set. The zero value is ready to
// use.
//
// A change is made as a whole or not at all: where one config that it concerns does
// not validate, or one follower refuses it, all stays as it was. Changes wait for each
// other: a follower, the function of a Derive, and a hook or subscriber that is called
// because of what a follower does must not make one, or it waits for itself. Who is told
// by [FollowConfig] may.
type Configs[C interface{ Validate() error }] struct {
	changing sync.Mutex  // held by who changes something, while followers are called
	news     []*Registry // that are to tell of the change when it is over

	mu        sync.Mutex
	layers    map[string]layer[C]
	resolved  map[string]C
	followers []*follower[C] // replaced, never changed
}

// A layer is a config as it was given: a C, or a base and what is different.
type layer[C any] struct {
	cfg    C
	base   string
	change func(*C) // nil where it is a C
}

// Set gives a name to a config, or a name another config.
func (c *Configs[C]) Set(name string, cfg C) error {
	return c.put(name, layer[C]{cfg: cfg})
}

// Derive gives a name to what change makes of a copy of the config that has the name
// base, now and whenever that is changed. A base that has no config, unless it is
// empty, and one that is itself derived from name, is a [*ConfigError]. The copy is
// shallow: change puts new slices and maps in the place of old ones.
func (c *Configs[C]) Derive(name, base string, change func(*C)) error {
	if change == nil {
		change = func(*C) {}
	}
	return c.put(name, layer[C]{base: base, change: change})
}

// Get returns the config that has a name. The zero C without one is not ok, but for
// the empty name.
func (c *Configs[C]) Get(name string) (cfg C, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cfg, ok = c.resolved[name]
	return cfg, ok || name == ""
}

func unknown(method, name string) error {
	return &ConfigError{Field: method, Value: fmt.Sprintf("%q", name), Reason: "must be the name of a config"}
}

// put sets a layer and all that stands on it. The maps are replaced by who has
// changing, so that it may read them without the other lock.
func (c *Configs[C]) put(name string, l layer[C]) error {
	c.changing.Lock()
	defer c.end()
	layers := map[string]layer[C]{name: l}
	for n, other := range c.layers {
		if n != name {
			layers[n] = other
		}
	}
	resolved := map[string]C{}
	var concerned []string
	var errs []error
	for n := range layers {
		cfg, on, err := resolve(layers, n, name)
		switch {
		case err != nil:
			return err // the new layer cannot be: no other one has changed
		case on:
			concerned = append(concerned, n)
			resolved[n] = cfg
		default:
			resolved[n] = c.resolved[n]
		}
	}
	slices.Sort(concerned)
	for _, n := range concerned {
		if err := resolved[n].Validate(); err != nil {
			errs = append(errs, fmt.Errorf("config %q: %w", n, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	told, err := c.tell(concerned, resolved)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.layers, c.resolved = layers, resolved
	for _, f := range told {
		c.holds(f, nil)
	}
	return nil
}

// resolve returns the config of a name if it stands on changed. Only changed can
// bring a circle or a base that is not there.
func resolve[C any](layers map[string]layer[C], name, changed string) (cfg C, on bool, err error) {
	var changes []func(*C)
	for seen := map[string]bool{}; ; {
		on = on || name == changed
		l, ok := layers[name]
		switch {
		case seen[name]:
			return cfg, on, &ConfigError{Field: "core.Configs.Derive", Value: fmt.Sprintf("%q", name), Reason: "must not be derived from itself"}
		case !ok && name != "":
			return cfg, on, unknown("core.Configs.Derive base", name)
		}
		if cfg = l.cfg; l.change == nil {
			break
		}
		seen[name] = true
		changes = append(changes, l.change)
		name = l.base
	}
	if on {
		for _, change := range slices.Backward(changes) {
			change(&cfg)
		}
	}
	return cfg, on, nil
}
