package ratelimit

import (
	"time"

	"github.com/gresil/gresil/core/ratelimit/driver"
)

// Stats are the counters of a [Limiter] and of those derived from it by With.
type Stats struct {
	Allowed     uint64 // decisions that granted permits
	Rejected    uint64 // decisions that refused
	Canceled    uint64 // waits that ended before their time
	StoreErrors uint64 // operations that the store could not decide
	Local       uint64 // the StoreErrors that this process decided; takes are in Allowed or Rejected too
	HookPanics  uint64 // hooks that panicked
	Waiting     int    // waits now
	Keys        int    // keys held; -1 where the store does not tell
	Evicted     uint64 // keys dropped though they owed something
}

// Stats returns the counters as they are now.
func (l *Limiter) Stats() Stats {
	local := l.locals.Load() // StoreErrors - Local is exact, and never decreases
	s := Stats{
		Allowed: l.allowed.Load(), Rejected: l.rejected.Load(), Canceled: l.canceled.Load(), StoreErrors: l.undecided.Load() + local, Local: local,
		HookPanics: l.panics.Count(), Waiting: int(l.waiting.Load()), Keys: -1,
	}
	if l.own != nil {
		allowed, rejected := l.memory.counts()
		s.Allowed, s.Rejected = s.Allowed+allowed, s.Rejected+rejected
	}
	if t, ok := l.table.(driver.CountingTable); ok {
		s.Keys, s.Evicted = t.Counts()
	}
	return s
}

// Observe adds hooks while the limiter is in use; cancel takes them out again.
func (l *Limiter) Observe(h Hooks) (cancel func()) { return l.hooks.Add(h) }

// StoreStats are the counters of a store that many processes share, as its method Stats
// returns them. Each operation that was not canceled is counted once: in Decided, Denied,
// Timeouts, Failed or Unsent.
type StoreStats struct {
	Decided  uint64 // operations that the server decided
	Denied   uint64 // takes refused without the server, since it had just refused the like
	Timeouts uint64 // operations without a reply in time: that of the store, or of the caller
	Failed   uint64 // operations that failed otherwise
	Unsent   uint64 // operations not sent, because the server is away
	Local    uint64 // of Timeouts, Failed and Unsent, those decided in this process: see [Local]

	// Sent is how many operations went to the server, also those that give back what was
	// granted to a caller who had left. Divided by RoundTrips.Count it is how many went
	// together.
	Sent uint64
	// RoundTrips are how long requests took, until the reply or the error.
	RoundTrips Latencies
	// Away tells whether the server, or one of several that are in use, is taken to be away: after
	// failures in a row, until a request to it succeeds.
	Away bool
	// Instances is how many processes share the limits while the server is away, as far as this
	// one knows; 0 where it does not ask, as without a limiter with [Local].
	Instances int
}

// latencyBounds is how many [LatencyBounds] there are.
const latencyBounds = 12

// LatencyBounds are the upper bounds of the counts of [Latencies].
func LatencyBounds() [latencyBounds]time.Duration {
	const us, ms = time.Microsecond, time.Millisecond
	return [...]time.Duration{100 * us, 250 * us, 500 * us, 1 * ms, 2500 * us, 5 * ms, 10 * ms, 25 * ms, 50 * ms, 100 * ms, 250 * ms, 1000 * ms}
}

// Latencies tell how long things took.
type Latencies struct {
	// Counts[i] is how many took no longer than LatencyBounds()[i], and longer than the bound
	// before; the last count is of those that took longer than all bounds.
	Counts [latencyBounds + 1]uint64
	// Sum is how long all took together.
	Sum time.Duration
}

// Count is how many there were.
func (l Latencies) Count() (n uint64) {
	for _, c := range l.Counts {
		n += c
	}
	return n
}
