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

// TestNoWindowInWhichRatesChangeExceedsTheirHighestCap: whenever rates change, and as often as they do. Bursts
// that change can add their difference.
func TestNoWindowInWhichRatesChangeExceedsTheirHighestCap(t *testing.T) {
	t.Parallel()
	for bursts := range int64(5) {
		for seed := range uint64(10) {
			t.Run(fmt.Sprint(bursts, seed), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { changeAtRandom(t, bursts, rand.New(rand.NewPCG(seed, 9))) }) //nolint:gosec // a test
			})
		}
	}
}

// changeAtRandom changes the Calls, and if bursts is 0 the Burst.
func changeAtRandom(t *testing.T, bursts int64, random *rand.Rand) {
	t.Helper()
	const slack = 50 * time.Millisecond
	var mu sync.Mutex
	upTo := func(d int64) int64 {
		mu.Lock()
		defer mu.Unlock()
		return random.Int64N(d + 1)
	}
	rate := func() pace.Rate {
		r := pace.Rate{Calls: 6 + upTo(60), Per: time.Second, Burst: bursts}
		if bursts == 0 {
			r.Burst = 1 + upTo(r.Calls-1)
		}
		return r
	}
	type change struct {
		at time.Time
		to pace.Rate
	}
	start, first := time.Now(), rate()
	changes := []change{{start, first}}
	p := newPacer(t, pace.Config{Name: "vendor", Rates: []pace.Rate{first}, Slack: slack})
	var v vendor
	var wg sync.WaitGroup
	for range 40 {
		wg.Go(func() {
			for time.Since(start) < 10*time.Second {
				permit, err := p.Wait(t.Context(), "k", 1)
				if err != nil {
					t.Error(err)
					return
				}
				if upTo(2) > 0 {
					time.Sleep(time.Duration(upTo(int64(max(0, time.Until(permit.NotAfter))))))
				}
				if !permit.Stale() {
					v.call(1)
				}
			}
		})
	}
	for time.Since(start) < 10*time.Second {
		time.Sleep(time.Duration(upTo(int64(time.Second))))
		next := rate()
		require.NoError(t, p.SetRates(next))
		changes = append(changes, change{time.Now(), next})
	}
	wg.Wait()
	for i, last := range v.arrivals {
		began := last.at.Add(-time.Second - slack) // a call can be as late as that
		bound, differ, calls := int64(0), int64(0), 0
		for k, c := range changes {
			if c.at.After(last.at) || k+1 < len(changes) && !changes[k+1].at.After(began) {
				continue
			}
			bound = max(bound, c.to.Calls)
			if c.at.After(began) && k > 0 {
				differ += max(c.to.Burst-changes[k-1].to.Burst, changes[k-1].to.Burst-c.to.Burst)
			}
		}
		for calls <= i && last.at.Sub(v.arrivals[i-calls].at) < time.Second {
			calls++
		}
		require.LessOrEqual(t, int64(calls), bound+differ, "at %v", last.at.Sub(start))
	}
}
