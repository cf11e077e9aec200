package logs

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/gresil/gresil/internal/registry"
)

// A subject is an instance that is logged.
type subject struct {
	run    *run
	source registry.Source
	log    *slog.Logger
	cancel func()

	mu       sync.Mutex
	counted  map[string]float64  // the counters whose growth is logged, by text
	warnings map[string]*warning // by text
	outage   outage
}

// A warning is the state of the warnings with one text.
type warning struct {
	last  time.Time // when one was logged
	count uint64    // how many are not logged yet
	attrs []slog.Attr
}

// write logs an event.
func (s *subject) write(ctx context.Context, e registry.Event) {
	e.Attrs = slices.Concat(s.key(e), e.Attrs)
	switch {
	case e.Outage:
		s.storeChanged(ctx, e)
	case e.Warn:
		s.warn(ctx, e.Text, 1, e.Attrs)
	case e.Call:
		s.record(ctx, slog.LevelDebug, e.Text, e.Attrs)
	default:
		s.record(ctx, slog.LevelInfo, e.Text, e.Attrs)
	}
}

// record logs a record. The texts of the mechanisms are constant.
func (s *subject) record(ctx context.Context, level slog.Level, text string, attrs []slog.Attr, more ...slog.Attr) {
	s.log.LogAttrs(ctx, level, text, slices.Concat(attrs, more)...) //nolint:sloglint // see above
}

// key returns the attribute of the key, if it may be logged.
func (s *subject) key(e registry.Event) []slog.Attr {
	switch {
	case e.Key == "":
	case s.source.Hosts != nil && s.source.Hosts():
		return []slog.Attr{slog.String("host", e.Key)}
	case s.run.cfg.Keys:
		return []slog.Attr{slog.String("key", e.Key)}
	}
	return nil
}

// warn counts n events with a text, and logs them at Warn, unless such a warning was logged within the last minute.
func (s *subject) warn(ctx context.Context, text string, n uint64, attrs []slog.Attr) {
	s.mu.Lock()
	w := s.warnings[text]
	if w == nil {
		w = &warning{}
		s.warnings[text] = w
	}
	w.count, w.attrs = w.count+n, attrs
	s.mu.Unlock()
	s.flush(ctx, text, w, false)
}

// flush logs a warning if it is due.
func (s *subject) flush(ctx context.Context, text string, w *warning, end bool) {
	s.mu.Lock()
	n, attrs := w.count, w.attrs
	if n == 0 || !end && !w.last.IsZero() && time.Since(w.last) < warnEvery {
		s.mu.Unlock()
		return
	}
	w.count, w.last = 0, time.Now()
	s.mu.Unlock()
	s.record(ctx, slog.LevelWarn, text, attrs, slog.Uint64("count", n))
}

// look logs what is due: counters that have grown, warnings and outages. At the end, everything that is not long past is due.
func (s *subject) look(end bool) {
	ctx := context.Background()
	for text, n := range s.grown() {
		s.warn(ctx, text, n, nil)
	}
	s.mu.Lock()
	warnings := maps.Clone(s.warnings)
	s.mu.Unlock()
	for text, w := range warnings {
		s.flush(ctx, text, w, end)
	}
	s.lookAtOutage(ctx, end)
}

// grown returns by how much each counter whose growth is logged has grown since the last call.
func (s *subject) grown() map[string]uint64 {
	now, grown := counters(s.source), map[string]uint64{}
	s.mu.Lock()
	defer s.mu.Unlock()
	for text, n := range now {
		if was := s.counted[text]; n > was {
			grown[text] = uint64(n - was)
		}
	}
	s.counted = now
	return grown
}

// counters returns the counters whose growth is logged, by text.
func counters(s registry.Source) map[string]float64 {
	counted := map[string]float64{}
	if s.Figures != nil {
		for _, f := range s.Figures() {
			if f.Warn != "" {
				counted[f.Warn] = f.N
			}
		}
	}
	return counted
}

// end ends the logging of an instance.
func (s *subject) end() {
	s.cancel()
	s.look(true)
}
