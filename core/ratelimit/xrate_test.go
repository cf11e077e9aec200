package ratelimit

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/gresil/gresil/internal/limits"
)

// A bucket decides as golang.org/x/time/rate does, at the time that it quotes, and
// refuses 1ns before it.
//
// x/time counts in float64. The rates are powers of two of at most 512 a second: what
// is quoted is then a multiple of 1/512 s, which is a whole number of nanoseconds and
// exact in a float64, and so are its tokens. Just before the quoted time it is not
// asked: it cuts the wait to whole nanoseconds, downwards, and so lets pass what is
// due within one.
func TestBucketAgreesWithXTimeRate(t *testing.T) {
	t.Parallel()
	checkAgainstXTime(t, 15_000)
}

func checkAgainstXTime(t *testing.T, steps int) {
	t.Helper()
	const buckets = 50 // as many at the quoted time as before it
	rng := rand.New(rand.NewPCG(21, 22))
	at, before := 0, 0
	for range buckets {
		permits, period := int64(1)<<rng.IntN(10), time.Second<<rng.IntN(6)
		burst := 1 + rng.Int64N(1<<rng.IntN(12))
		tab, ids := newTestTable(t, 0, TokenBucket(permits, period, burst))
		theirs := rate.NewLimiter(rate.Limit(float64(permits)/period.Seconds()), int(burst))
		epoch := time.Unix(1_000_000_000, 0)
		now := time.Duration(0)
		take := func(cost int64) Result {
			r, err := eitherAt(tab, int64(now), "k", ids[0], limits.Op{Cost: cost})
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		for mine := 0; mine < steps/buckets; {
			cost := 1 + rng.Int64N(burst)
			r := take(cost)
			if theirs.AllowN(epoch.Add(now), int(cost)) != r.Allowed {
				t.Fatalf("%d per %v, burst %d: at %v for %d we say %v", permits, period, burst, now, cost, r.Allowed)
			}
			if r.Allowed {
				continue
			}
			due := now + r.RetryAfter
			if now = due - 1; take(cost).Allowed {
				t.Fatalf("%d per %v, burst %d: %d allowed 1ns before %v", permits, period, burst, cost, due)
			}
			now = due
			if ours, xtime := take(cost).Allowed, theirs.AllowN(epoch.Add(now), int(cost)); !ours || !xtime {
				t.Fatalf("%d per %v, burst %d: at the quoted time %v for %d we say %v, they say %v", permits, period, burst, due, cost, ours, xtime)
			}
			before, at, mine = before+1, at+1, mine+2
		}
	}
	require.Equal(t, steps/2, at)
	require.Equal(t, steps/2, before)
}
