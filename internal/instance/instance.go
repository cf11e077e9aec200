// Package instance is the life cycle of a mechanism, service or plugin: a name, an entry in a registry, a Config that can be replaced
// while it is in use, listeners, and Close.
package instance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/registry"
	"github.com/gresil/gresil/internal/validate"
)

// Fields are the fields that every Config has.
type Fields struct {
	Name     *string
	Registry **core.Registry
}

// A Kind describes the instances of one type: C is their Config, S the settings that follow from a Config.
type Kind[C interface{ Validate() error }, S any] struct {
	Kind        string // in a registry, as "retry"
	Type        string // of the Config, as "retry.Config"
	DefaultName string
	// Fields returns the fields of a Config that the life cycle needs.
	Fields func(*C) Fields
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

// An Instance is the state of the life cycle of one instance. Call Init before any other method.
type Instance[C interface{ Validate() error }, S any] struct {
	registry.Listeners

	kind     *Kind[C, S]
	name     string
	registry *core.Registry
	remove   func()
	mu       sync.Mutex // of SetConfig
	current  atomic.Pointer[Current[C, S]]
}

// Init validates cfg and adopts it. Nothing is registered yet.
func (i *Instance[C, S]) Init(kind *Kind[C, S], cfg C) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	fields := kind.Fields(&cfg)
	i.kind, i.name, i.registry, i.remove = kind, cmp.Or(*fields.Name, kind.DefaultName), *fields.Registry, func() {}
	i.adopt(cfg)
	return nil
}

// Register adds self to the registry of the Config, if there is one, with its report, of which Events, Config and Set come from
// here. set is the SetConfig of self. If the name is in use, the error is a [*core.ConfigError].
func (i *Instance[C, S]) Register(self any, set func(C) error, source registry.Source) error {
	source.Events = i.Add
	source.Config = func() any { return i.Load().Config }
	source.Set = func(cfg any, dry bool) error {
		c, ok := cfg.(C)
		switch {
		case !ok:
			return validate.Bad(i.kind.Type, fmt.Sprintf("%T", cfg), fmt.Sprintf("must be a %T", c))
		case dry:
			_, err := i.check(c)
			return err
		}
		return set(c)
	}
	remove, err := (*registry.Registry)(i.registry).Add(registry.Entry{Kind: i.kind.Kind, Name: i.name, Instance: self, Source: source})
	if err != nil {
		return validate.Bad(i.kind.Type+".Name", i.name, err.Error())
	}
	i.remove = remove
	return nil
}

// Name returns the name, which never changes.
func (i *Instance[C, S]) Name() string { return i.name }

// Load returns the Config in use and its settings: one atomic load.
func (i *Instance[C, S]) Load() *Current[C, S] { return i.current.Load() }

// Settings derives the settings of a valid Config of this instance, for an override. The Name stays.
func (i *Instance[C, S]) Settings(cfg C) S {
	*i.kind.Fields(&cfg).Name = i.name
	return i.kind.Settings(&cfg)
}

// SetConfig replaces the Config. An empty Name and a nil Registry stay as they are. The error reports an invalid Config, every field
// that must not change, and the error of apply; with an error nothing changes. apply, which may be nil, passes the Config to the parts
// that need it; calls of SetConfig wait for each other.
func (i *Instance[C, S]) SetConfig(cfg C, apply func(cfg *C) error) error {
	err := i.replace(cfg, apply)
	(*registry.Registry)(i.registry).Reloaded(i.kind.Kind, err)
	if i.Listening() {
		e := registry.Event{Text: "config replaced"}
		if err != nil {
			e = registry.Event{Text: "config refused, the old one is kept", Warn: true, Attrs: []slog.Attr{slog.Any("err", err)}}
		}
		i.Emit(context.Background(), e)
	}
	return err
}

func (i *Instance[C, S]) replace(cfg C, apply func(cfg *C) error) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	cfg, err := i.check(cfg)
	if err == nil && apply != nil {
		err = apply(&cfg)
	}
	if err == nil {
		i.adopt(cfg)
	}
	return err
}

// check returns cfg with the Name and Registry that stay, and the errors of a SetConfig.
func (i *Instance[C, S]) check(cfg C) (C, error) {
	old := i.current.Load().Config
	was, fields := i.kind.Fields(&old), i.kind.Fields(&cfg)
	*fields.Name, *fields.Registry = cmp.Or(*fields.Name, *was.Name), cmp.Or(*fields.Registry, i.registry)
	check := validate.Of(i.kind.Type)
	check.That(*fields.Name == *was.Name || *fields.Name == i.name, "Name", *fields.Name, "must stay "+i.name)
	check.That(*fields.Registry == i.registry, "Registry", "another one", "must stay the same")
	if i.kind.Fixed != nil {
		i.kind.Fixed(check, &old, &cfg)
	}
	return cfg, errors.Join(cfg.Validate(), check.Err())
}

// Close removes the instance from its registry. It goes on working. A second Close does nothing.
func (i *Instance[C, S]) Close() error {
	i.remove()
	return nil
}

func (i *Instance[C, S]) adopt(cfg C) {
	next := &Current[C, S]{Config: cfg}
	if i.kind.Settings != nil {
		next.Settings = i.kind.Settings(&next.Config)
	}
	i.current.Store(next)
}
