package pace_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/outbound/pace"
)

// TestNothingThatCallsDoExceedsTheCap: three processes over a store that is slow at random. Calls wait,
// reserve, leave at any moment, come back to a stale permit, and are delayed by the network.
func TestNothingThatCallsDoExceedsTheCap(t *testing.T) {
	t.Parallel()
	const skew = 10 * time.Millisecond
	for name, cfg := range map[string]pace.Config{
		"rolling": {Rates: perSecond(20)},
		"fast":    {Rates: perSecond(200)},
		"burst":   {Rates: []pace.Rate{{Calls: 20, Per: time.Second, Burst: 4}, {Calls: 200, Per: 20 * time.Second, Burst: 30}}},
		"log":     {Rates: []pace.Rate{{Calls: 20, Per: time.Second}, {Calls: 200, Per: 20 * time.Second}}, Mode: pace.SlidingLog},
		"window":  {Rates: []pace.Rate{{Calls: 20, Per: time.Second}, {Calls: 200, Per: 20 * time.Second}}, Mode: pace.FixedWindow},
	} {
		for seed := range uint64(2) {
			t.Run(fmt.Sprint(name, seed), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					var mu sync.Mutex
					random := rand.New(rand.NewPCG(seed, 7)) //nolint:gosec // a test
					upTo := func(d time.Duration) time.Duration {
						mu.Lock()
						defer mu.Unlock()
						return time.Duration(random.Int64N(int64(d) + 1))
					}
					s := newRemote()
					s.lag = func() time.Duration { return upTo(20 * time.Millisecond) }
					cfg := cfg
					cfg.Name, cfg.Skew, cfg.Store = "vendor", skew, s
					cfg.Fair = func(context.Context) string { return fmt.Sprint(upTo(3)) }
					var v vendor
					start := time.Now()
					var wg sync.WaitGroup
					for range 3 {
						p := newPacer(t, cfg)
						for range 12 {
							wg.Go(func() {
								for time.Since(start) < 30*time.Second {
									actRandomly(t, p, &v, upTo)
								}
							})
						}
					}
					wg.Wait()
					require.Greater(t, v.total(), int64(200))
					for _, r := range cfg.Rates {
						if cfg.Mode == pace.FixedWindow {
							require.LessOrEqual(t, v.mostFixed(r.Per, 0), r.Calls, "%+v", r)
						} else {
							require.LessOrEqual(t, v.most(r.Per), r.Calls, "%+v", r)
						}
					}
				})
			})
		}
	}
}

func actRandomly(t *testing.T, p *pace.Pacer, v *vendor, upTo func(time.Duration) time.Duration) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if upTo(2) == 0 {
		time.AfterFunc(upTo(300*time.Millisecond), cancel) // it leaves
	}
	get := p.Wait
	if upTo(9) == 0 {
		get = p.Reserve
	}
	permit, err := get(ctx, "k", 1)
	if err != nil {
		time.Sleep(upTo(10 * time.Millisecond))
		return
	}
	time.Sleep(time.Until(permit.At))
	if moment := upTo(3); moment == 0 { // as late as it can be
		time.Sleep(time.Until(permit.NotAfter))
	} else if moment == 1 { // it stands still
		time.Sleep(upTo(200 * time.Millisecond))
	}
	if !permit.Stale() {
		time.Sleep(upTo(10 * time.Millisecond)) // Skew
		v.call(1)
	}
}
