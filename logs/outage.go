package logs

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/gresil/gresil/core"
)

// outages logs the failures of one store: a warning while the store fails, and a record
// when it has recovered. If a warning was written less than WarnEvery ago,
// the next outages are not logged one by one, but together when WarnEvery is over.
type outages struct {
	s     *subject
	often rate.Sometimes

	mu     sync.Mutex
	latest core.Step     // of the failures
	end    core.Step     // of the latest outage that has ended
	at     time.Time     // of the latest failure
	since  time.Time     // start of the current outage; zero while the store works
	lasted time.Duration // all ended outages without a record of recovery
	count  uint64        // failures in them and in the current one
	warned uint64        // of count, those in a warning
}

// newOutages adds the outages of one store; a composed instance can have several.
func (s *subject) newOutages() *outages {
	o := &outages{s: s, often: rate.Sometimes{Interval: s.a.cfg.warnEvery()}}
	s.outages = append(s.outages, o)
	return o
}

// step notes a failure, or with no Warn the end of an outage, and logs it if that is due.
func (o *outages) step(ctx context.Context, step core.Step) {
	if step.Warn {
		o.failed(step)
		o.look(ctx, false)
	} else if o.ended(step) {
		o.logRecovery(ctx)
	}
}

func (o *outages) failed(step core.Step) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.latest, o.at = step, time.Now()
	if o.since.IsZero() {
		o.since = o.at
	}
	o.count++
}

// ended ends the current outage. It reports whether there was a warning of it.
func (o *outages) ended(step core.Step) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.since.IsZero() { // it began before the adapter
		return false
	}
	o.lasted += time.Since(o.since)
	o.since, o.end = time.Time{}, step
	return o.warned > 0
}

// look logs failures that were not logged, if that is due. At the end of the adapter or
// instance it is due if the latest failure is recent.
func (o *outages) look(ctx context.Context, end bool) {
	o.mu.Lock()
	failing, due := !o.since.IsZero(), false
	switch {
	case o.count == o.warned && (failing || o.count == 0):
	case end:
		due = time.Since(o.at) < o.s.a.cfg.warnEvery()
	default:
		o.often.Do(func() { due = true })
	}
	o.mu.Unlock()
	switch {
	case !due:
	case failing:
		o.warn(ctx)
	default:
		o.logRecovery(ctx)
	}
}

func (o *outages) warn(ctx context.Context) {
	o.mu.Lock()
	step, n := o.latest, o.count-o.warned
	o.warned = o.count
	o.mu.Unlock()
	o.s.record(ctx, slog.LevelWarn, step.Text, o.s.attrs(step, slog.Uint64("count", n)), func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.warned -= min(n, o.warned) // count the failures in the next warning
	})
}

func (o *outages) logRecovery(ctx context.Context) {
	o.mu.Lock()
	step, lasted, n := o.end, o.lasted, o.count
	o.lasted, o.count, o.warned = 0, 0, 0
	o.mu.Unlock()
	o.s.record(ctx, slog.LevelInfo, step.Text, o.s.attrs(step, slog.Duration("lasted", lasted), slog.Uint64("count", n)), func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.lasted, o.count = o.lasted+lasted, o.count+n // add the outage to the next record
	})
}
