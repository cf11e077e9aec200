package pace_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/outbound/pace"
)

const slack = 50 * time.Millisecond

func perSecond(calls int64) []pace.Rate { return []pace.Rate{{Calls: calls, Per: time.Second}} }

func newPacer(tb testing.TB, cfg pace.Config) *pace.Pacer {
	tb.Helper()
	p, err := pace.New(cfg)
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = p.Close() })
	return p
}

// A vendor notes the time and cost of each arrival.
type vendor struct {
	mu       sync.Mutex
	arrivals []arrival
}

type arrival struct {
	at   time.Time
	cost int64
}

func (v *vendor) call(cost int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.arrivals = append(v.arrivals, arrival{time.Now(), cost})
}

// most returns the highest cost in any half-open window of a length, wherever it begins.
func (v *vendor) most(per time.Duration) (most int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	all := slices.SortedFunc(slices.Values(v.arrivals), func(a, b arrival) int { return a.at.Compare(b.at) })
	sum, first := int64(0), 0
	for _, a := range all {
		for sum += a.cost; a.at.Sub(all[first].at) >= per; first++ {
			sum -= all[first].cost
		}
		most = max(most, sum)
	}
	return most
}

func (v *vendor) total() (sum int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, a := range v.arrivals {
		sum += a.cost
	}
	return sum
}

// TestNoRollingWindowHasMoreThanTheCap sends thousands of calls whose delays differ by up to Slack
// and Skew, in all modes.
func TestNoRollingWindowHasMoreThanTheCap(t *testing.T) {
	t.Parallel()
	const skew = 20 * time.Millisecond
	for name, cfg := range map[string]pace.Config{
		"one":            {Rates: perSecond(1)},
		"two":            {Rates: perSecond(2)},
		"three":          {Rates: perSecond(3)},
		"ten":            {Rates: perSecond(10)},
		"many":           {Rates: perSecond(997)},
		"burst":          {Rates: []pace.Rate{{Calls: 20, Per: time.Second, Burst: 5}}},
		"whole burst":    {Rates: []pace.Rate{{Calls: 7, Per: time.Second, Burst: 7}}},
		"two rates":      {Rates: []pace.Rate{{Calls: 10, Per: time.Second, Burst: 5}, {Calls: 60, Per: 10 * time.Second, Burst: 20}}},
		"implied rate":   {Rates: []pace.Rate{{Calls: 2, Per: time.Second}, {Calls: 300, Per: 5 * time.Second}}},
		"short period":   {Rates: []pace.Rate{{Calls: 5, Per: 200 * time.Millisecond}}},
		"log":            {Rates: perSecond(10), Mode: pace.SlidingLog},
		"two logs":       {Rates: []pace.Rate{{Calls: 10, Per: time.Second}, {Calls: 30, Per: 7 * time.Second}}, Mode: pace.SlidingLog},
		"log of one":     {Rates: perSecond(1), Mode: pace.SlidingLog},
		"rounded up":     {Rates: []pace.Rate{{Calls: 3, Per: 1000000007}}},
		"several costs":  {Rates: []pace.Rate{{Calls: 11, Per: time.Second, Burst: 4}}},
		"costs in a log": {Rates: perSecond(11), Mode: pace.SlidingLog},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				cfg.Skew = skew
				p, random := newPacer(t, cfg), rand.New(rand.NewPCG(1, 2))
				var v vendor
				var wg sync.WaitGroup
				costs := int64(1)
				if name == "several costs" || name == "costs in a log" {
					costs = 4
				}
				time.Sleep(time.Duration(random.Int64N(int64(time.Hour))))
				for range 50 {
					calls := 30 + random.IntN(60)
					delays, cost := make([]time.Duration, calls), make([]int64, calls)
					for i := range calls {
						delays[i], cost[i] = time.Duration(random.Int64N(int64(slack+skew)+1)), 1+random.Int64N(costs)
						if random.IntN(3) == 0 {
							delays[i] = []time.Duration{0, slack + skew}[random.IntN(2)]
						}
					}
					for i := range calls {
						wg.Go(func() {
							_, err := p.Wait(t.Context(), "k", cost[i])
							if err == nil {
								time.Sleep(delays[i])
								v.call(cost[i])
							}
						})
					}
					if random.IntN(4) == 0 {
						wg.Wait()
						time.Sleep(time.Duration(random.Int64N(int64(3 * time.Second))))
					}
				}
				wg.Wait()
				require.Greater(t, v.total(), int64(1500))
				for _, r := range cfg.Rates {
					require.LessOrEqual(t, v.most(r.Per), r.Calls, "%+v", r)
				}
			})
		})
	}
}

// TestThroughputIsTheCapLessSlack: a pacer that waits too long would keep every cap.
func TestThroughputIsTheCapLessSlack(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]pace.Config{
		"rolling": {Rates: perSecond(20)},
		"fast":    {Rates: perSecond(500)},
		"log":     {Rates: perSecond(20), Mode: pace.SlidingLog},
		"window":  {Rates: perSecond(20), Mode: pace.FixedWindow},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p, start := newPacer(t, cfg), time.Now()
				var wg sync.WaitGroup
				calls := int(20 * cfg.Rates[0].Calls)
				for range calls {
					wg.Go(func() { _ = core.Must(p.Wait(t.Context(), "k", 1)) })
				}
				wg.Wait()
				require.Less(t, time.Since(start), 21*time.Second+time.Millisecond)
				require.Greater(t, time.Since(start), 18*time.Second)
				require.EqualValues(t, calls, p.Stats().Permits)
				require.Zero(t, p.Stats().Waiting+p.Stats().Reserved)
			})
		})
	}
}

func TestCallsWaitInTheOrderOfTheirArrival(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, pace.Config{Rates: perSecond(1000)})
		var mu sync.Mutex
		var order []int
		var wg sync.WaitGroup
		for i := range 200 {
			wg.Go(func() {
				_ = core.Must(p.Wait(t.Context(), "k", 1))
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
			})
			synctest.Wait()
		}
		wg.Wait()
		require.True(t, slices.IsSorted(order), order)
	})
}

// TestACampaignDelaysAnotherOneByItsTicketsOnly: one campaign has 10,000 waiting calls when
// another one begins.
func TestACampaignDelaysAnotherOneByItsTicketsOnly(t *testing.T) {
	t.Parallel()
	type campaign struct{}
	synctest.Test(t, func(t *testing.T) {
		const interval = 1050 * time.Microsecond
		p := newPacer(t, pace.Config{Rates: perSecond(1000), Fair: func(ctx context.Context) string { s, _ := ctx.Value(campaign{}).(string); return s }})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 10_000 {
			wg.Go(func() { _, _ = p.Wait(context.WithValue(ctx, campaign{}, "large"), "k", 1) })
		}
		synctest.Wait()
		for i := range 3 {
			start := time.Now()
			_, err := p.Wait(context.WithValue(t.Context(), campaign{}, "small"), "k", 1)
			require.NoError(t, err)
			require.LessOrEqual(t, time.Since(start), 30*interval, i)
		}
		start := time.Now()
		for range 100 { // both at once: every second slot
			wg.Go(func() { _ = core.Must(p.Wait(context.WithValue(t.Context(), campaign{}, "small"), "k", 1)) })
		}
		require.Eventually(t, func() bool { return p.Snapshot().Keys[0].Waiting < 10_000 }, time.Minute, time.Millisecond)
		cancel()
		wg.Wait()
		require.Less(t, time.Since(start), 231*interval)
	})
}

func TestSubKeysAreServedInTurn(t *testing.T) {
	t.Parallel()
	type sub struct{}
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, pace.Config{Rates: perSecond(10), Fair: func(ctx context.Context) string { s, _ := ctx.Value(sub{}).(string); return s }})
		var mu sync.Mutex
		var order []string
		var wg sync.WaitGroup
		for _, one := range []string{"first", "a", "a", "a", "a", "b", "b", "c"} {
			wg.Go(func() {
				_ = core.Must(p.Wait(context.WithValue(t.Context(), sub{}, one), "k", 1))
				mu.Lock()
				order = append(order, one)
				mu.Unlock()
			})
			synctest.Wait()
		}
		wg.Wait()
		require.Equal(t, []string{"first", "a", "a", "b", "c", "a", "b", "a"}, order, "the first a had its turn when it came")
	})
}

// TestACanceledCallPassesItsSlotOn: no slot is lost, and none is used twice.
func TestACanceledCallPassesItsSlotOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const interval = 1050 * time.Millisecond
		p, start := newPacer(t, pace.Config{Rates: perSecond(1)}), time.Now()
		_ = core.Must(p.Wait(t.Context(), "k", 1))
		ctx, cancel := context.WithCancelCause(t.Context())
		gone := errors.New("gone")
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := p.Wait(ctx, "k", 1)
			require.ErrorIs(t, err, gone)
		})
		synctest.Wait()
		for i := range 2 {
			wg.Go(func() {
				permit := core.Must(p.Wait(t.Context(), "k", 1))
				require.Equal(t, start.Add(time.Duration(i+1)*interval), permit.At)
				require.Equal(t, permit.At, time.Now())
			})
			synctest.Wait()
		}
		time.Sleep(time.Second)
		cancel(gone)
		wg.Wait()
		require.Equal(t, 2*interval, time.Since(start))
	})
}

// TestASlotThatNobodyWantsIsASpare: the next call has it while it is fresh.
func TestASlotThatNobodyWantsIsASpare(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ comes, at time.Duration }{
		"before its time": {1010 * time.Millisecond, 1050 * time.Millisecond},
		"while fresh":     {1090 * time.Millisecond, 1050 * time.Millisecond},
		"too late":        {1101 * time.Millisecond, 2100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p, start := newPacer(t, pace.Config{Rates: perSecond(1)}), time.Now()
				_ = core.Must(p.Wait(t.Context(), "k", 1))
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				time.AfterFunc(time.Second, cancel)
				_, err := p.Wait(ctx, "k", 1)
				require.ErrorIs(t, err, context.Canceled)
				time.Sleep(c.comes - time.Since(start))
				permit := core.Must(p.Wait(t.Context(), "k", 1))
				require.Equal(t, start.Add(c.at), permit.At)
				require.Equal(t, max(c.at, c.comes), time.Since(start))
			})
		})
	}
}

func TestAPermitEndsAfterSlack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, start := newPacer(t, pace.Config{Rates: perSecond(1)}), time.Now()
		first := core.Must(p.Reserve(t.Context(), "k", 1))
		second := core.Must(p.Reserve(t.Context(), "k", 1))
		require.Equal(t, start, first.At)
		require.Equal(t, start.Add(slack), first.NotAfter)
		require.Equal(t, start.Add(1050*time.Millisecond), second.At)
		require.LessOrEqual(t, second.NotAfter.Sub(second.At), slack)
		time.Sleep(slack)
		require.False(t, first.Stale())
		time.Sleep(time.Nanosecond)
		require.True(t, first.Stale())
		require.False(t, second.Stale())
	})
}

// TestTheEarliestSpareIsUsedFirst, so that each is used while it is fresh.
func TestTheEarliestSpareIsUsedFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, start := newPacer(t, pace.Config{Rates: perSecond(100)}), time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		_ = core.Must(p.Wait(t.Context(), "k", 1))
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() { _, _ = p.Wait(ctx, "k", 1) })
			synctest.Wait()
		}
		cancel()
		wg.Wait()
		for i := range 3 {
			require.Equal(t, start.Add(time.Duration(i+1)*10500*time.Microsecond), core.Must(p.Wait(t.Context(), "k", 1)).At)
		}
	})
}

// TestASnapshotForgetsNoSpare that is fresh, though its slot is over.
func TestASnapshotForgetsNoSpare(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, start := newPacer(t, pace.Config{Rates: perSecond(1)}), time.Now()
		_ = core.Must(p.Wait(t.Context(), "k", 1))
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, err := p.Wait(ctx, "k", 1)
		require.ErrorIs(t, err, context.Canceled)
		time.Sleep(1060*time.Millisecond - time.Since(start))
		require.Len(t, p.Snapshot().Keys, 1)
		require.Equal(t, start.Add(1050*time.Millisecond), core.Must(p.Wait(t.Context(), "k", 1)).At)
		time.Sleep(time.Second)
		require.Empty(t, p.Snapshot().Keys)
	})
}

// A late context stands for a process that stands still between its turn and its reservation.
type lateContext struct{ context.Context }

func (c lateContext) Deadline() (time.Time, bool) {
	time.Sleep(5 * time.Second)
	return c.Context.Deadline()
}

func TestNoCallOvertakesOneThatHasItsTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, pace.Config{Rates: perSecond(1)})
		_ = core.Must(p.Wait(t.Context(), "k", 1))
		var wg sync.WaitGroup
		order := make(chan int, 2)
		for i, ctx := range []context.Context{lateContext{t.Context()}, t.Context()} {
			wg.Go(func() {
				_ = core.Must(p.Wait(ctx, "k", 1))
				order <- i
			})
			time.Sleep(2 * time.Second)
		}
		wg.Wait()
		require.Equal(t, []int{0, 1}, []int{<-order, <-order})
	})
}
