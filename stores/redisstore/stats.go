package redisstore

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/blame"
	"github.com/gresil/gresil/internal/stripe"
)

// counters are the counters of [Store.Stats].
type counters struct {
	decided                        stripe.Counter
	timeouts, failed, unsent, sent atomic.Uint64
	trips                          [len(ratelimit.Latencies{}.Counts)]atomic.Uint64
	took                           atomic.Int64
}

// ended counts an operation that the server decided, or not.
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

// trip counts a request with so many operations.
func (c *counters) trip(operations int, took time.Duration) {
	c.sent.Add(uint64(operations))
	c.took.Add(int64(took))
	i := 0
	for bounds := ratelimit.LatencyBounds(); i < len(bounds) && took > bounds[i]; {
		i++
	}
	c.trips[i].Add(1)
}

// Stats returns the counters as they are now.
func (s *Store) Stats() ratelimit.StoreStats {
	c := &s.counters
	stats := ratelimit.StoreStats{
		Decided: c.decided.Load(), Timeouts: c.timeouts.Load(), Failed: c.failed.Load(), Unsent: c.unsent.Load(),
		Sent: c.sent.Load(), Unavailable: s.unavailable(),
	}
	for i := range c.trips {
		stats.RoundTrips.Counts[i] = c.trips[i].Load()
	}
	stats.RoundTrips.Sum = time.Duration(c.took.Load())
	for _, t := range s.allTables() {
		stats.Instances = max(stats.Instances, int(t.beats.n.Load()))
	}
	return stats
}
