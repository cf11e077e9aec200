package breaker

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/gresil/gresil/core"
)

// SetConfig replaces the Config while the breaker is in use. Where the new one
// cannot be used, the old one stays. Name and Registry must not change; where they
// are zero they stay what they are. Initial says nothing any more.
//
// The state stays as it is, an open breaker open for as long as it was to be, and so
// do the counts. Rates and MinCalls are looked at when the next call has ended. The
// window keeps what fits in: the last calls where Window changes, the tenths by
// when they began where WindowTime does; it begins empty where one takes the place
// of the other. Where Trials changes while half-open, the trials begin anew, and those that
// run do not count any more. Calls that began while there was no SlowCall are not
// slow. The hooks of the Config are replaced, those of Observe stay.
//
// A breaker of a [Group] has the Config of its group: that is where to set it.
func (b *Breaker) SetConfig(cfg Config) error {
	if b.group {
		return &core.ConfigError{Field: "breaker.Breaker.SetConfig", Value: b.key, Reason: "must be called for its Group"}
	}
	if err := b.replace(cfg); err != nil {
		return err
	}
	b.adopt()
	return nil
}

// SetConfig replaces the Config of all breakers of the group, each as
// [Breaker.SetConfig] does. A breaker that is made later begins in the new Initial.
func (g *Group) SetConfig(each Config) error {
	if err := g.replace(each); err != nil {
		return err
	}
	for _, b := range g.All() {
		b.adopt()
	}
	g.overflow.adopt()
	return nil
}

// replace makes cfg the current one, which is still to be adopted.
func (s *shared) replace(cfg Config) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.current.Load().cfg
	cfg.Name, cfg.Registry = cmp.Or(cfg.Name, old.Name), cmp.Or(cfg.Registry, old.Registry)
	errs := []error{cfg.Validate()}
	if cfg.name() != s.name {
		errs = append(errs, &core.ConfigError{Field: "breaker.Config.Name", Value: cfg.Name, Reason: "must stay " + s.name})
	}
	if cfg.Registry != old.Registry {
		errs = append(errs, &core.ConfigError{Field: "breaker.Config.Registry", Value: "another one", Reason: "must stay the same"})
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	s.current.Store(newRules(cfg))
	s.hooks.Own(cfg.Hooks)
	return nil
}

// adopt makes the breaker follow the current rules. Who loses a race finds those of
// the winner.
func (b *Breaker) adopt() {
	now := b.now()
	b.lock(context.Background(), now)
	old := b.rules
	b.rules = b.current.Load()
	b.refit(old, now)
	if n := b.rules.trialCount; n != len(b.trials.slots) {
		b.trials.slots = make([]slot, n)
		if since := b.since; b.state == HalfOpen {
			b.enter(HalfOpen, now)
			b.since = since
		}
	}
	b.publish()
	b.announce(b.unlock())
}

// refit makes the window as the rules want it, with what was in it.
func (b *Breaker) refit(old *rules, now time.Duration) {
	before, cfg, slow := b.ring, &b.rules.cfg, b.rules.slowCall > 0
	if !slow {
		b.trials.slow, b.trials.slowFailures = 0, 0
	}
	switch {
	case cfg.WindowTime > 0 && b.buckets == nil:
		b.ring, b.buckets = ring{}, newBuckets(cfg.WindowTime)
	case cfg.WindowTime > 0:
		if cfg.WindowTime != old.cfg.WindowTime {
			b.buckets = b.buckets.refit(cfg.WindowTime, now)
		}
		if !slow {
			b.buckets.forgetSlow()
		}
	case b.buckets != nil:
		b.ring, b.buckets = newRing(cfg.window(), slow), nil
	case cfg.window() != before.size || slow != (before.slow != nil):
		b.ring = newRing(cfg.window(), slow)
		before.each(before.calls, func(failed, wasSlow bool) { b.ring.add(failed, slow && wasSlow) })
	}
}
