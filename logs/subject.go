package logs

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/time/rate"

	"github.com/gresil/gresil/core"
)

// A subject is an entry of the registry, or the registry itself, that is logged.
type subject struct {
	a        *Adapter
	log      atomic.Pointer[slog.Logger]
	detach   []func()
	counters []*counter
	outages  []*outages     // of the stores of its mechanisms
	looks    rate.Sometimes // at the counters, together with another record
}

// newSubject attaches to an entry. It returns nil for an entry that is logged only when
// it is added, changed or removed.
func newSubject(a *Adapter, e core.Entry) *subject {
	s := &subject{a: a, looks: rate.Sometimes{Interval: a.cfg.warnEvery()}}
	s.log.Store(logger(a.log, e))
	instances := []any{e.Instance}
	if composed, ok := e.Instance.(core.Composed); ok {
		instances = composed.Mechanisms()
	}
	logged := false
	for _, instance := range instances {
		for _, attach := range kinds() {
			if attach(s, instance) {
				logged = true
				break
			}
		}
	}
	if !logged {
		return nil
	}
	return s
}

// logger adds kind, name and tags of an entry to each record.
func logger(l *slog.Logger, e core.Entry) *slog.Logger {
	attrs := []slog.Attr{slog.String("kind", e.Kind), slog.String("name", e.Name)}
	if len(e.Tags) > 0 {
		var tags []slog.Attr
		for _, tag := range slices.Sorted(maps.Keys(e.Tags)) {
			tags = append(tags, slog.String(tag, e.Tags[tag]))
		}
		attrs = append(attrs, slog.GroupAttrs("tags", tags...))
	}
	return slog.New(l.Handler().WithAttrs(attrs))
}

// observe adds the function that removes hooks.
func (s *subject) observe(cancel func()) { s.detach = append(s.detach, cancel) }

// write logs an event, and looks at the counters at most once in WarnEvery.
func (s *subject) write(ctx context.Context, level slog.Level, msg string, attrs ...slog.Attr) {
	s.log.Load().LogAttrs(ctx, level, msg, attrs...) //nolint:sloglint // the callers' messages are constant
	due := false
	s.looks.Do(func() { due = true }) // its lock is not for calls of a logger
	if due {
		s.look(ctx, false)
	}
}

// key returns the attribute of a key; without Config.Keys it is empty, and is not
// written.
func (s *subject) key(key string) slog.Attr {
	if !s.a.cfg.Keys || key == "" {
		return slog.Attr{}
	}
	return slog.String("key", key)
}

// A counter is a count whose growth is logged.
type counter struct {
	msg  string
	once bool // log it a single time
	read func() uint64

	mu     sync.Mutex
	logged uint64
	often  rate.Sometimes
}

// hooks adds the counter of the panics of hooks.
func (s *subject) hooks(panics func() uint64) { s.count("hooks panicked", true, panics) }

func (s *subject) count(msg string, once bool, read func() uint64) {
	s.counters = append(s.counters, &counter{msg: msg, once: once, read: read, often: rate.Sometimes{Interval: s.a.cfg.warnEvery()}})
}

// look logs the counters that have grown, each at most once in WarnEvery; at the end
// all of them. A handler that panics does not prevent the others.
func (s *subject) look(ctx context.Context, end bool) {
	for _, c := range s.counters {
		if !end && s.a.closed() {
			return
		}
		func() {
			defer s.a.panics.Recover()
			s.warn(ctx, c, end)
		}()
	}
	for _, o := range s.outages {
		if !end && s.a.closed() {
			return
		}
		func() {
			defer s.a.panics.Recover()
			o.look(ctx, end)
		}()
	}
}

// warn logs one counter, if that is due.
func (s *subject) warn(ctx context.Context, c *counter, end bool) {
	n := c.grown(end)
	if n == 0 {
		return
	}
	s.record(ctx, slog.LevelWarn, c.msg, []slog.Attr{slog.Uint64("count", n)}, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.logged -= n // count the growth again
	})
}

// record logs counts, and calls undo if the handler panics.
func (s *subject) record(ctx context.Context, level slog.Level, msg string, attrs []slog.Attr, undo func()) {
	logged := false
	defer func() {
		if !logged {
			undo()
		}
	}()
	s.log.Load().LogAttrs(ctx, level, msg, attrs...) //nolint:sloglint // the callers' messages are constant
	logged = true
}

// grown returns by how much the counter has grown since it was last logged, and 0 if it
// is too early to log it again.
func (c *counter) grown(end bool) (n uint64) {
	now := c.read()
	c.mu.Lock()
	defer c.mu.Unlock()
	if now <= c.logged || c.once && c.logged > 0 {
		return 0
	}
	due := end
	c.often.Do(func() { due = true })
	if !due {
		return 0
	}
	n, c.logged = now-c.logged, now
	return n
}

// failure returns the attribute of an error; of nil it is empty, and is not written.
func failure(err error) slog.Attr {
	if err == nil {
		return slog.Attr{}
	}
	return slog.Any("err", err)
}
