package logs

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/registry"
)

// Config configures [Run]. The zero value is ready to use.
type Config struct {
	// Calls logs single calls too, at Debug: those that are retried, rejected or cut off. If false, calls cost nothing.
	Calls bool
	// Keys adds the key of a call or a limit, which may be a secret. The host of a breaker is always logged,
	// unless a plugin of its group has keys that are not hosts.
	Keys bool
}

// warnEvery is the shortest time between two warnings with the same text about an instance.
const warnEvery = time.Minute

// Run logs the events of the mechanisms in the registry, including those that are registered later, until ctx ends. An event is logged by
// the goroutine in which it happens. The error is nil, or a *core.ConfigError if registry or logger is nil.
func Run(ctx context.Context, of *core.Registry, logger *slog.Logger, cfg Config) error {
	var errs []error
	if of == nil {
		errs = append(errs, &core.ConfigError{Field: "logs.Run registry", Value: nil, Reason: "must be the registry of the mechanisms"})
	}
	if logger == nil {
		errs = append(errs, &core.ConfigError{Field: "logs.Run logger", Value: nil, Reason: "must be a logger"})
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	r := &run{logger: logger, cfg: cfg, subjects: map[any]*subject{}}
	cancel := r.begin((*registry.Registry)(of))
	defer r.end()
	defer cancel()
	r.wait(ctx)
	return nil
}

// wait logs the warnings that are due until ctx ends.
func (r *run) wait(ctx context.Context) {
	ticker := time.NewTicker(warnEvery / 4)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			r.look()
		}
	}
}

// A run is one call of Run.
type run struct {
	logger *slog.Logger
	cfg    Config

	mu       sync.Mutex
	subjects map[any]*subject // by instance; nil after the end
}

// begin adds the instances in the registry, and follows its changes.
func (r *run) begin(of *registry.Registry) (cancel func()) {
	counted := map[any]map[string]float64{}
	for _, e := range of.Entries() {
		counted[e.Instance] = counters(e.Source) // so that earlier counts are not logged
	}
	r.mu.Lock() // changes wait for this lock
	defer r.mu.Unlock()
	now, cancel := of.Watch(r.changed)
	for _, e := range now {
		r.addLocked(e, counted[e.Instance])
	}
	return cancel
}

// changed handles a change of the registry. It can be called after the end.
func (r *run) changed(e registry.Entry, c registry.Change) {
	switch c {
	case registry.Removed:
		r.mu.Lock()
		s := r.subjects[e.Instance]
		delete(r.subjects, e.Instance)
		r.mu.Unlock()
		if s != nil {
			s.end()
			s.log.Debug("instance removed")
		}
	case registry.Added:
		r.mu.Lock()
		open := r.subjects != nil
		if open {
			r.addLocked(e, nil)
		}
		r.mu.Unlock()
		if open {
			r.logged(e).Debug("instance added")
		}
	}
}

// addLocked begins to log an instance. counted are the values of its counters before.
func (r *run) addLocked(e registry.Entry, counted map[string]float64) {
	s := &subject{run: r, source: e.Source, log: r.logged(e), counted: counted, warnings: map[string]*warning{}, cancel: func() {}}
	r.subjects[e.Instance] = s
	if e.Source.Events != nil {
		s.cancel = e.Source.Events(r.cfg.Calls, s.write)
	}
}

func (r *run) logged(e registry.Entry) *slog.Logger {
	return slog.New(r.logger.Handler().WithAttrs([]slog.Attr{slog.String("kind", e.Kind), slog.String("name", e.Name)}))
}

// all returns the subjects.
func (r *run) all() (all []*subject) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.subjects {
		all = append(all, s)
	}
	return all
}

// look logs the warnings that are due.
func (r *run) look() {
	for _, s := range r.all() {
		s.look(false)
	}
}

// end logs what is not logged yet.
func (r *run) end() {
	all := r.all()
	r.mu.Lock()
	r.subjects = nil
	r.mu.Unlock()
	for _, s := range all {
		s.end()
	}
}
