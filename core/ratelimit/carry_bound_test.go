package ratelimit_test

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
)

// Whatever limits follow each other, a key is granted at most the largest capacity and, for any time,
// the highest rate × that time; of windows and counters twice as much.
func TestNoHistoryOfLimitsGrantsMore(t *testing.T) {
	t.Parallel()
	second, minute := time.Second, time.Minute
	for name, c := range map[string]struct {
		limits []ratelimit.Limit
		factor float64
	}{
		"buckets and logs": {[]ratelimit.Limit{
			ratelimit.TokenBucket(10, second, 7), ratelimit.TokenBucket(3, minute, 12), ratelimit.SlidingLog(6, minute), ratelimit.SlidingLog(9, second), ratelimit.TokenBucket(1, time.Hour, 20),
		}, 1},
		"all": {[]ratelimit.Limit{
			ratelimit.FixedWindow(10, minute), ratelimit.FixedWindow(20, second), ratelimit.AlignedWindow(7, minute), ratelimit.SlidingCounter(8, minute), ratelimit.SlidingWindow(9, minute, 6),
			ratelimit.TokenBucket(10, second, 7), ratelimit.SlidingLog(6, minute), ratelimit.FixedWindow(10, minute).And(ratelimit.TokenBucket(2, second, 9)),
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			capacity, rate := 0.0, 0.0
			for _, l := range c.limits {
				capacity, rate = max(capacity, float64(limits.Limit(l).Capacity())), max(rate, float64(spec(l).Permits)/spec(l).Period.Seconds())
			}
			for seed := range uint64(40) {
				synctest.Test(t, func(t *testing.T) {
					rng := rand.New(rand.NewPCG(seed, 15)) //nolint:gosec // a test is repeated by its seed
					limit := func() ratelimit.Limit { return c.limits[rng.IntN(len(c.limits))] }
					l := newLimiter(t, ratelimit.Config{Limit: limit()})
					type grant struct {
						at time.Time
						n  int64
					}
					var grants []grant
					for range 200 {
						switch rng.IntN(6) {
						case 0:
							time.Sleep(time.Duration(rng.Int64N(int64(10 * second))))
						case 1:
							time.Sleep(time.Duration(rng.Int64N(int64(100 * time.Millisecond))))
						case 2:
							require.NoError(t, l.SetLimit(limit()))
						case 3:
							require.NoError(t, l.SetKeyLimit("k", limit()))
						case 4:
							_ = l.SetKeyLimit("k", ratelimit.Limit{})
						}
						in := l
						if seed%2 == 0 && rng.IntN(3) == 0 {
							in = core.Must(l.WithLimit(limit()))
						}
						r, err := in.TakeAtMost(t.Context(), "k", 1+rng.Int64N(20))
						require.NoError(t, err)
						grants = append(grants, grant{time.Now(), r.Permits})
					}
					for i := range grants {
						sum := int64(0)
						for _, g := range grants[i:] {
							sum += g.n
							most := c.factor * (capacity + rate*g.at.Sub(grants[i].at).Seconds())
							if float64(sum) > most+1e-6 { // so often that an assertion would be most of the time
								t.Fatalf("seed %d: %d permits within %v, at most %v are right", seed, sum, g.at.Sub(grants[i].at), most)
							}
						}
					}
				})
			}
		})
	}
}
