package pace_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/outbound/pace"
)

// mostFixed returns the highest cost in any period of a clock that differs by skew.
func (v *vendor) mostFixed(per, skew time.Duration) (most int64) {
	sums := map[int64]int64{}
	for _, a := range v.arrivals {
		window := a.at.Add(skew).UnixNano() / int64(per)
		sums[window] += a.cost
		most = max(most, sums[window])
	}
	return most
}

// TestNoPeriodOfTheVendorsClockHasMoreThanTheCap: the vendor's clock differs by up to Skew, and a call
// takes up to Slack.
func TestNoPeriodOfTheVendorsClockHasMoreThanTheCap(t *testing.T) {
	t.Parallel()
	const skew = 20 * time.Millisecond
	for name, rates := range map[string][]pace.Rate{
		"one rate":  {{Calls: 10, Per: time.Second}},
		"two rates": {{Calls: 10, Per: time.Second}, {Calls: 35, Per: 7 * time.Second}},
		"one call":  {{Calls: 1, Per: 300 * time.Millisecond}},
	} {
		for _, clock := range []time.Duration{-skew, 0, skew} {
			for _, takes := range []time.Duration{0, slack, -1} {
				t.Run(fmt.Sprint(name, clock, takes), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) {
						p, random := newPacer(t, pace.Config{Rates: rates, Mode: pace.FixedWindow, Skew: skew}), rand.New(rand.NewPCG(1, 2))
						var v vendor
						var wg sync.WaitGroup
						calls := 0
						time.Sleep(time.Duration(random.Int64N(int64(time.Hour))))
						start := time.Now()
						for range 40 {
							n := 1 + random.IntN(40)
							calls += n
							for range n {
								delay := takes
								if delay < 0 {
									delay = time.Duration(random.Int64N(int64(slack)))
								}
								wg.Go(func() {
									if _, err := p.Wait(t.Context(), "k", 1); err == nil {
										time.Sleep(delay)
										v.call(1)
									}
								})
							}
							time.Sleep(time.Duration(random.Int64N(int64(3 * time.Second))))
						}
						wg.Wait()
						require.EqualValues(t, calls, v.total())
						for _, r := range rates {
							require.LessOrEqual(t, v.mostFixed(r.Per, clock), r.Calls, "%+v", r)
						}
						limit := rates[len(rates)-1]
						ideal := time.Duration(calls) * limit.Per / time.Duration(limit.Calls)
						require.Less(t, time.Since(start), max(2*time.Minute, ideal*23/20), "%d stale", p.Stats().Stale)
					})
				})
			}
		}
	}
}

// TestAPeriodThatIsNearlyOverIsNotUsed, and costs one permit of each call at most.
func TestAPeriodThatIsNearlyOverIsNotUsed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, pace.Config{Rates: perSecond(10), Mode: pace.FixedWindow, Skew: 10 * time.Millisecond})
		time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second + 950*time.Millisecond)))
		border := time.Now().Add(slack)
		permit, err := p.Wait(t.Context(), "k", 1)
		require.NoError(t, err)
		require.GreaterOrEqual(t, permit.At.Sub(border), 10*time.Millisecond, "Skew after the start")
		require.Less(t, permit.At.Sub(border), 11*time.Millisecond)
		require.InDelta(t, time.Second-slack-10*time.Millisecond, permit.NotAfter.Sub(border), float64(time.Millisecond))
		require.EqualValues(t, 1, p.Stats().Stale)
	})
}

// TestManyMoreCallsThanCanBeReserved: a window is reserved three periods ahead, a log four.
func TestManyMoreCallsThanCanBeReserved(t *testing.T) {
	t.Parallel()
	for _, mode := range []pace.Mode{pace.FixedWindow, pace.SlidingLog} {
		synctest.Test(t, func(t *testing.T) {
			s := newRemote()
			var wg sync.WaitGroup
			start := time.Now()
			for range 20 { // processes
				p := newPacer(t, pace.Config{Name: "vendor", Rates: perSecond(2), Mode: mode, Store: s})
				for range 5 {
					wg.Go(func() {
						_, err := p.Wait(t.Context(), "k", 1)
						require.NoError(t, err)
					})
				}
			}
			wg.Wait()
			require.Less(t, time.Since(start), 60*time.Second, mode)
		})
	}
}
