package breaker

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// Stats are the counts of a breaker, or of all breakers of a Group, and the present state.
type Stats struct {
	State State
	Since time.Time // when the state began
	Keys  int       // in a Group

	Calls       int     // in the window
	FailureRate float64 // in the window
	SlowRate    float64 // in the window

	Successes uint64 // calls
	Failures  uint64 // calls
	Slow      uint64 // of the successes and failures
	Ignored   uint64 // calls, also those that ended in another state
	Rejected  uint64 // calls
	Opened    uint64 // times
}

// String returns the stats in one line, as in "state=open failure_rate=0.52 successes=48 failures=52 rejected=7".
func (s Stats) String() string {
	text := []string{"state=" + s.State.String()}
	add := func(name string, n float64) {
		if n != 0 {
			text = append(text, fmt.Sprintf("%s=%.10g", name, n))
		}
	}
	add("keys", float64(s.Keys))
	add("failure_rate", s.FailureRate)
	add("slow_rate", s.SlowRate)
	add("successes", float64(s.Successes))
	add("failures", float64(s.Failures))
	add("slow", float64(s.Slow))
	add("ignored", float64(s.Ignored))
	add("rejected", float64(s.Rejected))
	add("opened", float64(s.Opened))
	return strings.Join(text, " ")
}

// Stats returns the counts so far, and the present state.
func (b *Breaker) Stats() Stats {
	s, _ := b.stats()
	return s
}

// stats returns the Stats and the counts of the window, after the changes that are due.
func (b *Breaker) stats() (Stats, counts) {
	b.lock(context.Background(), b.now())
	s, w := b.snapshot()
	b.announce(b.unlock())
	return s, w
}

// snapshot is stats under the lock.
func (b *Breaker) snapshot() (Stats, counts) {
	w := *b.window()
	s := Stats{
		State: b.state, Since: b.base.Add(b.since),
		Successes: b.succeeded + b.calm.Load(), Failures: b.failed, Slow: b.slow,
		Ignored: b.ignored.Load(), Rejected: b.rejected.Load(), Opened: b.openings,
	}
	return s.in(w), w
}

// in returns s with the counts of a window.
func (s Stats) in(w counts) Stats {
	s.Calls, s.FailureRate, s.SlowRate = w.calls, rate(w.failures, w.calls), rate(w.slow, w.calls)
	return s
}

// ranks are the states from the one that says least about a group to the one that says most.
var ranks = [...]int{Closed: 0, MetricsOnly: 1, Disabled: 2, ForcedOpen: 3, HalfOpen: 4, Open: 5} //nolint:gochecknoglobals // a constant

// Stats returns the sums over all breakers. State is Open if one of them is.
func (g *Group) Stats() Stats {
	s, _ := g.sum()
	return s
}

// sum returns the Stats, and the number of breakers in each state.
func (g *Group) sum() (s Stats, in [MetricsOnly + 1]int) {
	g.mu.RLock()
	s = g.retired
	g.mu.RUnlock()
	all, window := g.breakers(), counts{}
	for i, b := range append(all, g.overflow) {
		of, w := b.stats()
		s = s.plus(of)
		window.plus(w, 1)
		if i == len(all) && g.overflowed.Load() == 0 {
			break // its state is not that of any key
		}
		in[of.State]++
		if i == 0 || ranks[of.State] > ranks[s.State] {
			s.State, s.Since = of.State, of.Since
		}
	}
	s.Keys = len(all)
	return s.in(window), in
}

// plus adds the counts of a breaker of the same group.
func (s Stats) plus(of Stats) Stats {
	s.Successes += of.Successes
	s.Failures += of.Failures
	s.Slow += of.Slow
	s.Ignored += of.Ignored
	s.Rejected += of.Rejected
	s.Opened += of.Opened
	return s
}
