package redisstore

import (
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gresil/gresil/internal/blame"
	"github.com/gresil/gresil/internal/limitstore"
	"github.com/gresil/gresil/internal/stripe"
)

// bounds are the keys of Stats.RoundTripsWithin.
var bounds = [...]time.Duration{ //nolint:gochecknoglobals // a constant
	100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond,
	1 * time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond,
	10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, 1000 * time.Millisecond,
}

// counters are the counters of [Store.Stats].
type counters struct {
	decided, leased                stripe.Counter
	timeouts, failed, unsent, sent atomic.Uint64
	trips                          [len(bounds) + 1]atomic.Uint64 // round trips, by the first bound that they did not exceed
	took                           atomic.Int64
}

// ended counts the end of an operation, by its error.
func (c *counters) ended(err error) {
	switch {
	case err == nil:
		c.decided.Inc()
	case isCanceled(err):
	case errors.Is(err, ErrUnavailable):
		c.unsent.Add(1)
	case blame.Timeout(err):
		c.timeouts.Add(1)
	default:
		c.failed.Add(1)
	}
}

// trip counts a request with a number of operations.
func (c *counters) trip(operations int, took time.Duration) {
	c.sent.Add(uint64(operations))
	c.took.Add(int64(took))
	i, _ := slices.BinarySearch(bounds[:], took)
	c.trips[i].Add(1)
}

// Stats returns the counters as they are now.
func (s *Store) Stats() limitstore.Stats {
	c := &s.counters
	stats := limitstore.Stats{
		Decided: c.decided.Load(), Leased: c.leased.Load(), Timeouts: c.timeouts.Load(), Failed: c.failed.Load(), Unsent: c.unsent.Load(),
		Sent: c.sent.Load(), Unavailable: s.unavailable(),
		RoundTripTime: time.Duration(c.took.Load()), RoundTripsWithin: map[time.Duration]uint64{},
	}
	for i, bound := range bounds {
		stats.RoundTrips += c.trips[i].Load()
		stats.RoundTripsWithin[bound] = stats.RoundTrips
	}
	stats.RoundTrips += c.trips[len(bounds)].Load()
	s.mu.Lock()
	defer s.mu.Unlock()
	stats.Instances = int(s.census.n)
	if s.mode() == Lease {
		stats.Ahead = s.census.n * s.cfg.maxLease()
	}
	return stats
}
