package redisstore

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/ratelimit"
)

// TestTheClockStepsUnderLoad: a step forward is time in which a key is repaid, a whole capacity at
// most, and a step back neither repays it nor has it owe for longer than it did.
func TestTheClockStepsUnderLoad(t *testing.T) {
	t.Parallel()
	const limit, period = 50, 2 * time.Second
	for name, limits := range kinds(limit, period) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			modes(t, func(t *testing.T, mode Mode) {
				t.Helper()
				leavesNothing(t)
				longest := period
				if name == "counter" {
					longest *= 2 // what it has weighs as long
				}
				var ahead atomic.Int64
				s := newStore(t, startServer(t).virtual(t), Config{Mode: mode})
				s.clock = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
				began := time.Now()
				l := startLoad(t, s, limits, "k")
				shown, forward := time.Duration(0), int64(0)
				for _, step := range []time.Duration{10 * time.Second, -10 * time.Second, -10 * time.Second, 10 * time.Second, -10 * time.Second} {
					l.until(&l.decided, 2*limit)
					l.gate.Lock() // a server does not show two times at once
					ahead.Add(int64(step))
					l.gate.Unlock()
					if step > 0 {
						shown += step
						forward++
					}
				}
				l.until(&l.decided, 2*limit)
				l.stop()
				spent := time.Since(began)
				periods := int64(spent/period) + 1
				t.Logf("%s %v: granted %d and %d in %v and %d steps forward: at most %d; told to wait up to %v", name, mode,
					l.granted[index(ratelimit.Deny)].Load(), l.granted[index(ratelimit.Allow)].Load(), spent, forward, limit*(periods+forward+1), l.waits())
				l.within(limit * (periods + forward + 1))
				l.within(limit * (int64((spent+shown)/period) + 2))
				require.Zero(t, l.failed.Load())

				ahead.Add(int64(-10 * time.Second))
				r, err := l.limiters[index(ratelimit.Deny)].Take(t.Context(), "k", limit)
				require.NoError(t, err)
				require.LessOrEqual(t, max(l.waits(), r.RetryAfter), longest, "it owes no longer than when it was charged")
				ahead.Add(int64(r.RetryAfter))
				r, err = l.limiters[index(ratelimit.Deny)].Take(t.Context(), "k", limit)
				require.NoError(t, err)
				require.True(t, r.Allowed)
			})
		})
	}
}
