package logs

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/hook"
)

// An Adapter logs the instances in a registry. Make it with [New].
type Adapter struct {
	log      *slog.Logger
	cfg      Config
	registry *subject // the registry itself
	cancel   func()
	panics   hook.Panics // of handlers, outside of hooks

	done     chan struct{} // closed by Close
	mu       sync.Mutex
	attached map[entryKey]*subject
}

// An entryKey identifies an entry: one instance can have two names.
type entryKey struct{ kind, name string }

// New makes an adapter for the instances in the registry, and for those added later. A
// nil registry or logger, and each error of [Config.Validate], is a [*core.ConfigError].
func New(registry *core.Registry, logger *slog.Logger, cfg Config) (*Adapter, error) {
	err := cfg.Validate()
	if registry == nil {
		err = errors.Join(err, &core.ConfigError{Field: "logs.New registry", Value: nil, Reason: "must be the registry that the plugins are in"})
	}
	if logger == nil {
		err = errors.Join(err, &core.ConfigError{Field: "logs.New logger", Value: nil, Reason: "must be a logger"})
	}
	if err != nil {
		return nil, err
	}
	a := &Adapter{log: logger, cfg: cfg, done: make(chan struct{}), attached: map[entryKey]*subject{}}
	a.registry = &subject{a: a}
	a.registry.log.Store(logger.With(slog.String("kind", "registry"), slog.String("name", "default")))
	a.registry.count("subscribers panicked", true, registry.HookPanics)
	// Changes during this loop wait for the lock, and are applied afterwards.
	a.mu.Lock()
	defer a.mu.Unlock()
	now, cancel := registry.Subscribe(a.changed)
	a.cancel = cancel
	for _, e := range now {
		a.attachLocked(e)
	}
	return a, nil
}

// Run looks at the counters, several times in each [Config.WarnEvery], until ctx
// ends or the adapter is closed. The error is always nil. Without it, the counters of an
// instance are logged together with its next record.
func (a *Adapter) Run(ctx context.Context) error {
	ticker := time.NewTicker(max(a.cfg.warnEvery()/4, time.Millisecond))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-a.done:
			return nil
		case <-ticker.C:
			for _, s := range a.subjects() {
				s.look(ctx, false)
			}
		}
	}
}

// Close ends the logging, after a last look at the counters. Failures of a store are
// logged then only if the latest is more recent than [Config.WarnEvery]. Concurrent events
// might still be logged. A second Close does nothing; the error is always nil.
func (a *Adapter) Close() error {
	a.cancel()
	last := a.subjects()
	a.mu.Lock()
	was := a.closed()
	if !was {
		close(a.done)
	}
	for key := range a.attached {
		a.detachLocked(key)
	}
	a.mu.Unlock()
	if !was {
		for _, s := range last {
			s.look(context.Background(), true)
		}
	}
	return nil
}

func (a *Adapter) closed() bool {
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

func (a *Adapter) subjects() []*subject {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := []*subject{a.registry}
	for _, s := range a.attached {
		all = append(all, s)
	}
	return all
}

// changed logs a change of the registry. Changes arrive in order, possibly after Close.
func (a *Adapter) changed(e core.RegistryEvent) {
	old, now, closed := a.replace(e)
	if closed {
		return
	}
	ctx := context.Background()
	if old != nil && old != now {
		old.look(ctx, true)
	}
	log := logger(a.log, e.Entry)
	if now != nil {
		now.log.Store(log)
	}
	switch e.Kind {
	case core.Added:
		log.DebugContext(ctx, "instance added")
	case core.Removed:
		log.DebugContext(ctx, "instance removed")
	case core.Replaced:
		log.InfoContext(ctx, "instance replaced")
	case core.Reconfigured:
		if e.Err != nil {
			log.LogAttrs(ctx, slog.LevelWarn, "config refused, the old one is kept", slog.Any("err", e.Err))
		} else {
			log.InfoContext(ctx, "config replaced")
		}
	case core.Tagged: // later records have the new tags
	}
	a.registry.look(ctx, false)
}

// replace attaches the instance of an event instead of the one that had its name.
func (a *Adapter) replace(e core.RegistryEvent) (old, now *subject, closed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed() {
		return nil, nil, true
	}
	key := entryKey{e.Entry.Kind, e.Entry.Name}
	old = a.attached[key]
	switch {
	case e.Kind == core.Reconfigured, e.Kind == core.Tagged, e.Kind == core.Replaced && e.Old == e.Entry.Instance:
		return old, old, false
	}
	a.detachLocked(key)
	if e.Kind != core.Removed {
		a.attachLocked(e.Entry)
	}
	return old, a.attached[key], false
}

func (a *Adapter) attachLocked(e core.Entry) {
	if s := newSubject(a, e); s != nil {
		a.attached[entryKey{e.Kind, e.Name}] = s
	}
}

func (a *Adapter) detachLocked(key entryKey) {
	if s := a.attached[key]; s != nil {
		for _, detach := range s.detach {
			detach()
		}
		delete(a.attached, key)
	}
}
