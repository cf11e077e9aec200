package ratelimit

import (
	"fmt"
	"time"

	"github.com/gresil/gresil/internal/limits"
)

// Stats are the counters of a [Limiter] and of the limiters that WithLimit derived from it.
type Stats struct {
	Allowed     uint64 // decisions that granted permits
	Rejected    uint64 // decisions that refused
	Canceled    uint64 // waits that ended before their time
	StoreErrors uint64 // operations that the store could not decide
	Local       uint64 // the StoreErrors that this process decided; takes are in Allowed or Rejected too
	Waiting     int    // waits now
	Keys        int    // keys in the store; -1 if the store does not count them
	Evicted     uint64 // keys evicted with usage
}

// String returns the stats in one line, as in "allowed=120 rejected=3 keys=17".
func (s Stats) String() string {
	return fmt.Sprintf("allowed=%d rejected=%d keys=%d", s.Allowed, s.Rejected, s.Keys)
}

// Stats returns the counters as they are now.
func (l *Limiter) Stats() Stats {
	local := l.locals.Load() // StoreErrors - Local is exact, and never decreases
	s := Stats{
		Allowed: l.decisions.allowed.Load(), Rejected: l.decisions.rejected.Load(), Canceled: l.canceled.Load(), StoreErrors: l.undecided.Load() + local, Local: local,
		Waiting: int(l.waiting.Load()), Keys: -1,
	}
	if l.own != nil {
		allowed, rejected := l.memory.counts()
		s.Allowed, s.Rejected = s.Allowed+allowed, s.Rejected+rejected
	}
	if t, ok := limits.As[limits.CountingTable](l.table); ok {
		s.Keys, s.Evicted = t.Counts()
	}
	return s
}

// StoreStats are the counters of a store that many processes share, as its method Stats
// returns them. Each operation that was not canceled is counted once: in Decided, Denied,
// Timeouts, Failed or Unsent.
type StoreStats struct {
	Decided  uint64 // operations that the server decided
	Denied   uint64 // takes refused without the server by stores/denycache
	Timeouts uint64 // operations without a reply before the timeout of the store or the deadline of the caller
	Failed   uint64 // operations that failed otherwise
	Unsent   uint64 // operations not sent, because the server is unavailable
	Local    uint64 // of Timeouts, Failed and Unsent, those decided in this process by stores/share

	// Sent is the number of operations sent to the server, with the refunds of permits granted to
	// callers that had left. Sent/RoundTrips is the average batch size.
	Sent uint64
	// RoundTrips is the number of requests, and RoundTripTime their total duration, each until the
	// reply or the error. RoundTripsWithin has the number of requests that took no longer than a
	// duration, for several durations.
	RoundTrips       uint64
	RoundTripTime    time.Duration
	RoundTripsWithin map[time.Duration]uint64

	// Unavailable reports whether the server, or one of several servers in use, counts as unavailable:
	// after several failures in a row, until a request to it succeeds.
	Unavailable bool
	// Instances is the number of processes that share the limits while the server is unavailable,
	// as known to this process, of the table with the most; 0 if they are not counted, as without a
	// limiter with [Local].
	Instances int
}
