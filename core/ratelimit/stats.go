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
	s := l.unnamed()
	for _, view := range l.current.Load().views {
		s.Allowed, s.Rejected = s.Allowed+view.tally.allowed.Load(), s.Rejected+view.tally.rejected.Load()
	}
	s.Canceled, s.StoreErrors = l.canceled.Load(), l.undecided.Load()+l.locals.Load()
	if s.Waiting, s.Keys = int(l.waiting.Load()), -1; l.memory != nil {
		s.Keys, s.Evicted = l.memory.Counts()
	}
	return s
}

// unnamed returns the decisions under Config.Limit. They are counted apart from those of named limits: a difference that is read during
// calls can fall, and a counter must not.
func (s *shared) unnamed() (sum Stats) {
	if s.memory != nil {
		sum.Allowed, sum.Rejected = s.memory.Decisions()
	}
	sum.Allowed, sum.Rejected = sum.Allowed+s.decisions.allowed.Load(), sum.Rejected+s.decisions.rejected.Load()
	return sum
}
