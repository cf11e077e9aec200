package logs

import (
	"context"
	"log/slog"
	"time"

	"github.com/gresil/gresil/internal/registry"
)

// An outage tracks the failures of a store. A warning is logged while it fails, at most once a minute, and a record when it has recovered.
// Outages within a minute after a warning are logged together when the minute is over.
type outage struct {
	last   time.Time      // when it was last logged
	latest registry.Event // the event of the latest failure
	end    registry.Event // the event that ended the latest outage
	at     time.Time      // the time of the latest failure
	since  time.Time      // start of the current one; zero while the store works
	lasted time.Duration  // the total of the ended outages that are not logged
	count  uint64         // failures in them and in the current one
	warned uint64         // the part of count that was in a warning
}

// storeChanged notes a failure of a store, or that it has recovered, and logs it if that is due.
func (s *subject) storeChanged(ctx context.Context, e registry.Event) {
	s.mu.Lock()
	o := &s.outage
	now := time.Now()
	switch {
	case e.Warn:
		if o.latest, o.at = e, now; o.since.IsZero() {
			o.since = now
		}
		o.count++
	case o.since.IsZero(): // the outage began before Run
	default:
		o.lasted, o.since, o.end = o.lasted+now.Sub(o.since), time.Time{}, e
		if o.warned > 0 {
			s.recovered(ctx)
			return
		}
	}
	s.mu.Unlock()
	if e.Warn {
		s.lookAtOutage(ctx, false)
	}
}

// recovered logs ended outages. The caller holds the lock, which recovered releases.
func (s *subject) recovered(ctx context.Context) {
	o := s.outage
	s.outage = outage{last: o.last}
	s.mu.Unlock()
	s.record(ctx, slog.LevelInfo, o.end.Text, o.end.Attrs, slog.Duration("lasted", o.lasted), slog.Uint64("count", o.count))
}

// lookAtOutage logs failures that were not logged yet, if that is due. At the end, it is due if the latest failure is recent.
func (s *subject) lookAtOutage(ctx context.Context, end bool) {
	s.mu.Lock()
	o := &s.outage
	failing, due := !o.since.IsZero(), o.last.IsZero() || time.Since(o.last) >= warnEvery
	if end {
		due = time.Since(o.at) < warnEvery
	}
	switch {
	case !due, failing && o.count == o.warned, o.count == 0:
		s.mu.Unlock()
		return
	case !failing:
		o.last = time.Now()
		s.recovered(ctx)
		return
	}
	n, e := o.count-o.warned, o.latest
	o.warned, o.last = o.count, time.Now()
	s.mu.Unlock()
	s.record(ctx, slog.LevelWarn, e.Text, e.Attrs, slog.Uint64("count", n))
}
