package ratelimit

import (
	"fmt"
	"strings"

	"github.com/gresil/gresil/internal/text"
)

// Stats are the counts of a limiter, under all of its limits, and its present state.
type Stats struct {
	Allowed     uint64 // operations that took permits
	Rejected    uint64 // operations that were refused
	Canceled    uint64 // waits that ended early, by their context or Close
	StoreErrors uint64 // operations that the store failed to decide
	Waiting     int    // calls that wait now
	Keys        int    // in memory; -1 with a Store
	Evicted     uint64 // keys that were evicted although they had usage
}

// String returns the stats in one line, as in "allowed=120 rejected=3 keys=17".
func (s Stats) String() string {
	return strings.TrimSpace(fmt.Sprintf("allowed=%d rejected=%d ", s.Allowed, s.Rejected) +
		text.NonZero("canceled=%d store_errors=%d waiting=%d keys=%d evicted=%d",
			s.Canceled, s.StoreErrors, s.Waiting, max(0, s.Keys), s.Evicted))
}

// Stats returns the counts so far, and the present state.
func (l *Limiter) Stats() Stats {
	s := Stats{
		Allowed: l.decisions.allowed.Load(), Rejected: l.decisions.rejected.Load(), Canceled: l.canceled.Load(),
		StoreErrors: l.undecided.Load() + l.locals.Load(), Waiting: int(l.waiting.Load()), Keys: -1,
	}
	if l.memory != nil {
		allowed, rejected := l.memory.Decisions()
		s.Allowed, s.Rejected = s.Allowed+allowed, s.Rejected+rejected
		s.Keys, s.Evicted = l.memory.Counts()
	}
	return s
}
