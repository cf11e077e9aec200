// Package instance is the life cycle of a mechanism or plugin: a name, an entry in a
// registry, a Config that can be replaced while it is in use, hooks, and Close.
package instance

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/hook"
	"github.com/gresil/gresil/internal/validate"
)

// Fields are the fields that every Config has. Hooks is nil for a Config without hooks.
type Fields[H any] struct {
	Name     *string
	Registry **core.Registry
	Hooks    *H
}

// A Kind describes the instances of one type: C is their Config, S the settings that
// follow from a Config, H their Hooks.
type Kind[C interface{ Validate() error }, S any, H interface{ Join(other H) H }] struct {
	Kind        string // in a registry, as "retry"
	Type        string // of the Config, as "retry.Config"
	DefaultName string
	// Fields returns the fields of a Config that the life cycle needs.
	Fields func(*C) Fields[H]
	// Settings derives the settings of a valid Config. It may be nil if S needs none.
	Settings func(*C) S
	// Fixed adds the fields that differ and that SetConfig must not change. It may be nil.
	Fixed func(check *validate.Check, old, cfg *C)
}

// Current is a Config, as it was given, and its settings. It is never changed.
type Current[C, S any] struct {
	Config   C
	Settings S
}

// An Instance is the state of the life cycle of one mechanism or plugin. Call Init
// before any other method.
type Instance[C interface{ Validate() error }, S any, H interface{ Join(other H) H }] struct {
	Panics hook.Panics // of hooks

	kind     *Kind[C, S, H]
	name     string
	registry *core.Registry
	self     any
	mu       sync.Mutex // of SetConfig
	current  atomic.Pointer[Current[C, S]]
	hooks    hook.Set[H]
}

// Init validates cfg and adopts it. Nothing is registered yet.
func (i *Instance[C, S, H]) Init(kind *Kind[C, S, H], cfg C) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	fields := kind.Fields(&cfg)
	i.kind, i.name, i.registry = kind, *fields.Name, *fields.Registry
	if i.name == "" {
		i.name = kind.DefaultName
	}
	i.adopt(cfg)
	return nil
}

// Register adds self to the registry of the Config, if there is one. The error is that of
// [core.Registry.Add].
func (i *Instance[C, S, H]) Register(self any) error {
	if i.registry == nil {
		return nil
	}
	i.self = self
	return i.registry.Add(i.kind.Kind, i.name, self)
}

// Name returns the name, which never changes.
func (i *Instance[C, S, H]) Name() string { return i.name }

// Load returns the Config in use and its settings: one atomic load.
func (i *Instance[C, S, H]) Load() *Current[C, S] { return i.current.Load() }

// Hooks returns the hooks of the Config and of all observers, joined: one atomic load.
func (i *Instance[C, S, H]) Hooks() *H { return i.hooks.Load() }

// Observe adds hooks until cancel is called. Hooks that run at that moment are not
// interrupted.
func (i *Instance[C, S, H]) Observe(h H) (cancel func()) { return i.hooks.Add(h) }

// SetConfig replaces the Config. An empty Name and a nil Registry stay as they are. The
// error reports an invalid Config, every field that must not change, and the error of
// apply; with an error nothing changes. apply, which may be nil, passes the Config to
// the parts that need it; calls of SetConfig wait for each other.
func (i *Instance[C, S, H]) SetConfig(cfg C, apply func(cfg *C) error) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	old := i.current.Load().Config
	was, fields := i.kind.Fields(&old), i.kind.Fields(&cfg)
	if *fields.Name == "" {
		*fields.Name = *was.Name
	}
	if *fields.Registry == nil {
		*fields.Registry = i.registry
	}
	check := validate.Of(i.kind.Type)
	check.That(*fields.Name == *was.Name || *fields.Name == i.name, "Name", *fields.Name, "must stay "+i.name)
	check.That(*fields.Registry == i.registry, "Registry", "another one", "must stay the same")
	if i.kind.Fixed != nil {
		i.kind.Fixed(check, &old, &cfg)
	}
	if err := errors.Join(cfg.Validate(), check.Err()); err != nil {
		return err
	}
	if apply != nil {
		if err := apply(&cfg); err != nil {
			return err
		}
	}
	i.adopt(cfg)
	return nil
}

// Close removes the instance from its registry. It goes on working. A second Close does
// nothing.
func (i *Instance[C, S, H]) Close() error {
	if i.self != nil {
		i.registry.Remove(i.kind.Kind, i.name, i.self)
	}
	return nil
}

func (i *Instance[C, S, H]) adopt(cfg C) {
	next := &Current[C, S]{Config: cfg}
	if i.kind.Settings != nil {
		next.Settings = i.kind.Settings(&next.Config)
	}
	i.current.Store(next)
	if hooks := i.kind.Fields(&next.Config).Hooks; hooks != nil {
		i.hooks.Own(*hooks)
	}
}
