package breaker

import (
	"context"
	"time"

	"github.com/gresil/gresil/core"
)

// SetConfig replaces the Config while the breaker is in use. An empty Name and a nil
// Registry stay as they are. The error reports the fields that cannot be used, and a
// Name or Registry that differs; nothing changes then. Initial is not used any more.
//
// State, counts and observers stay, and an open breaker stays open for as long as
// before. The thresholds are evaluated when the next call ends. The window keeps as much
// as fits: the last calls if Window changes, the tenths by their beginning if WindowTime
// does; it is empty after a change from one to the other. If Trials changes while
// half-open, the trials start again, and those that run do not count any more. Calls
// that began without a SlowCall are not slow.
//
// A breaker of a [Group] has the Config of its group, and returns an error.
func (b *Breaker) SetConfig(cfg Config) error {
	if b.grouped {
		return &core.ConfigError{Field: "breaker.Breaker.SetConfig", Value: b.key, Reason: "must be called for its Group"}
	}
	if err := b.life.SetConfig(cfg, nil); err != nil {
		return err
	}
	b.adopt()
	return nil
}

// SetConfig replaces the Config of all breakers of the group, each as
// [Breaker.SetConfig] does. A breaker that is made later begins in the new Initial.
func (g *Group) SetConfig(each Config) error {
	if err := g.life.SetConfig(each, nil); err != nil {
		return err
	}
	for _, b := range g.All() {
		b.adopt()
	}
	g.overflow.adopt()
	return nil
}

// adopt makes the breaker follow the current rules, also if they were replaced again.
func (b *Breaker) adopt() {
	b.locked(func(_ context.Context, now time.Duration) {
		old := b.rules
		b.rules = b.life.Load().Settings
		b.refit(old, now)
		if n := b.rules.Trials; n != len(b.trials.slots) {
			b.trials.slots = make([]slot, n)
			if since := b.since; b.state == HalfOpen {
				b.enter(HalfOpen, now)
				b.since = since
			}
		}
		b.publish()
	})
}

// refit makes the window that the rules need, with the calls of the old one.
func (b *Breaker) refit(old *rules, now time.Duration) {
	before, r, slow := b.ring, b.rules, b.rules.SlowCall > 0
	if !slow {
		b.trials.slow, b.trials.slowFailures = 0, 0
	}
	switch {
	case r.WindowTime > 0 && b.buckets == nil:
		b.ring, b.buckets = ring{}, newBuckets(r.WindowTime)
	case r.WindowTime > 0:
		if r.WindowTime != old.WindowTime {
			b.buckets = b.buckets.refit(r.WindowTime, now)
		}
		if !slow {
			b.buckets.forgetSlow()
		}
	case b.buckets != nil:
		b.ring, b.buckets = newRing(r.Window, slow), nil
	case r.Window != before.size || slow != (before.slow != nil):
		b.ring = newRing(r.Window, slow)
		before.each(before.calls, func(failed, wasSlow bool) { b.ring.add(failed, slow && wasSlow) })
	}
}
