package breaker

import (
	"context"
	"time"

	"github.com/gresil/gresil/internal/text"
)

// Stats are the counts of a breaker, or of all breakers of a Group, and the present state.
type Stats struct {
	State State
	Since time.Time // when the state began
	Keys  int       // in a Group

	Calls       int     // in the window
	FailureRate float64 // in the window
	SlowRate    float64 // in the window

	Successes uint64 // calls that succeeded
	Failures  uint64 // calls that failed
	Slow      uint64 // slow calls among the successes and failures
	Ignored   uint64 // calls that were not counted, including those that ended in a later state
	Rejected  uint64 // calls that were not admitted
	Opened    uint64 // how often a breaker has opened
}

// String returns the stats in one line without what is 0, as in "state=open failure_rate=0.52 successes=48 failures=52 rejected=7".
func (s Stats) String() string {
	return text.NonZero("state=%v keys=%d failure_rate=%.4g slow_rate=%.4g "+
		"successes=%d failures=%d slow=%d ignored=%d rejected=%d opened=%d",
		s.State, s.Keys, s.FailureRate, s.SlowRate, s.Successes, s.Failures, s.Slow, s.Ignored, s.Rejected, s.Opened)
}

// Stats returns the counts so far, and the present state.
func (b *Breaker) Stats() Stats {
	s, _ := b.stats()
	return s
}

// stats makes the changes that are due, and returns the Stats and the counts of the window.
func (b *Breaker) stats() (s Stats, w counts) {
	b.change(func(context.Context) { s, w = b.snapshot(), *b.window })
	return s, w
}

// snapshot returns the Stats. The caller holds the lock.
func (b *Breaker) snapshot() Stats {
	return Stats{
		State: b.state, Since: b.base.Add(b.since),
		Successes: uint64(b.total.calls-b.total.failures) + b.calm.Load(), Failures: uint64(b.total.failures), Slow: uint64(b.total.slow),
		Ignored: b.ignored.Load(), Rejected: b.rejected.Load(), Opened: b.openings.Load(),
	}.in(*b.window)
}

// in returns s with the counts of a window.
func (s Stats) in(w counts) Stats {
	s.Calls, s.FailureRate, s.SlowRate = w.calls, rate(w.failures, w.calls), rate(w.slow, w.calls)
	return s
}

// ranks orders the states: that of a group is the highest of its breakers.
var ranks = [...]int{Closed: 0, MetricsOnly: 1, Disabled: 2, ForcedOpen: 3, HalfOpen: 4, Open: 5} //nolint:gochecknoglobals // a constant

// Stats returns the sums over all breakers. State is Open if one of them is open.
func (g *Group) Stats() Stats {
	s, _ := g.sum()
	return s
}

// sum returns the Stats, and the number of breakers in each state.
func (g *Group) sum() (s Stats, in [MetricsOnly + 1]int) {
	all, s := g.breakers()
	var window counts
	for _, b := range all {
		of, w := b.stats()
		s = s.plus(of)
		window.plus(w, 1)
		if in[of.State]++; s.Since.IsZero() || ranks[of.State] > ranks[s.State] {
			s.State, s.Since = of.State, of.Since
		}
	}
	return s.in(window), in
}

// plus adds the counts of another breaker.
func (s Stats) plus(of Stats) Stats {
	s.Successes += of.Successes
	s.Failures += of.Failures
	s.Slow += of.Slow
	s.Ignored += of.Ignored
	s.Rejected += of.Rejected
	s.Opened += of.Opened
	return s
}
