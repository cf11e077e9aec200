package dispatch_test

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/ratelimittest"
	"github.com/gresil/gresil/outbound/dispatch"
)

// TestTheRateOfTheLimiterHoldsAndAllCallsAreSent: calls wait for the vendor, an account, a connection and the
// limiter, in a queue or with reservations, for longer than a turn after a cooldown lasts.
func TestTheRateOfTheLimiterHoldsAndAllCallsAreSent(t *testing.T) {
	t.Parallel()
	for seed := range uint64(120) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			interval := []time.Duration{time.Second, 3 * time.Second, 12 * time.Second, 30 * time.Second, 59500 * time.Millisecond}[rng.IntN(5)]
			burst, n := 1+rng.Int64N(3), 4+rng.IntN(60)
			cfg := config{Capacity: 1 + rng.IntN(32), Attempts: 6}
			limits := ratelimit.Config{Name: "vendor", Limit: ratelimit.TokenBucket(1, interval, burst), MaxWait: -1}
			if rng.IntN(2) == 0 {
				limits.Store = unqueued{&ratelimittest.Memory{}}
			}
			if rng.IntN(2) == 0 {
				cfg.Account = ownAccount
			}
			var answers []answer
			for range n {
				a := answer{after: time.Duration(rng.ExpFloat64() * float64([]time.Duration{100 * time.Millisecond, 5 * time.Second, 40 * time.Second}[rng.IntN(3)]))}
				if len(answers) < 15 && rng.IntN(4) == 0 {
					a.err = []error{limited(time.Duration(rng.IntN(20_000)) * time.Millisecond), limitedAccount(20 * time.Second)}[rng.IntN(2)]
				}
				answers = append(answers, a)
			}
			cfg.Limiter = core.Must(ratelimit.New(limits))
			s, d := newScript(answers...), newDispatcher(t, cfg)
			ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
			defer cancel()
			var wg sync.WaitGroup
			for i := range n {
				wg.Go(func() {
					if _, err := dispatch.Do(ctx, d, strconv.Itoa(i%3), s.call); err != nil {
						t.Error(seed, err)
					}
				})
			}
			wg.Wait()
			times := s.times()
			for i := range times {
				for j := i + 1; j < len(times); j++ {
					require.LessOrEqual(t, int64(j-i+1), burst+int64((times[j]-times[i])/interval), "%d: %v, %v", seed, interval, times)
				}
			}
		})
	}
}
