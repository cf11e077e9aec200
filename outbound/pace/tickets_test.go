package pace_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/outbound/pace"
)

// TestASlowStoreDoesNotLowerTheRate: more calls wait for replies than have slots ahead.
func TestASlowStoreDoesNotLowerTheRate(t *testing.T) {
	t.Parallel()
	for _, mode := range []pace.Mode{pace.Rolling, pace.FixedWindow, pace.SlidingLog} {
		for _, takes := range []time.Duration{30 * time.Millisecond, 60 * time.Millisecond} {
			synctest.Test(t, func(t *testing.T) {
				const n, rate, shelf = 10_000, 500, 150 * time.Millisecond
				s, start := newRemote(), time.Now()
				s.takes.Store(int64(takes))
				p := newPacer(t, pace.Config{Name: "vendor", Rates: perSecond(rate), Mode: mode, Slack: shelf, Store: s})
				var v vendor
				var wg sync.WaitGroup
				for range n {
					wg.Go(func() {
						_ = core.Must(p.Wait(t.Context(), "k", 1))
						v.call(1)
					})
				}
				wg.Wait()
				require.Less(t, time.Since(start), 21*n/rate*(time.Second+shelf)/20, "%v %v", mode, takes)
				if mode == pace.FixedWindow {
					require.LessOrEqual(t, v.mostFixed(time.Second, 0), int64(rate))
				} else {
					require.LessOrEqual(t, v.most(time.Second), int64(rate))
				}
			})
		}
	}
}

// TestSeveralRatesAreAsFastAsTheOneThatDecides: a burst of the slow rate lets calls come at the fast one.
// When the burst is used up, calls have hardly more than one slot ahead.
func TestSeveralRatesAreAsFastAsTheOneThatDecides(t *testing.T) {
	t.Parallel()
	for _, takes := range []time.Duration{time.Millisecond, 5 * time.Millisecond, 20 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			const n, rate = 2000, 500
			s := newRemote()
			s.takes.Store(int64(takes))
			rates := append(perSecond(rate), pace.Rate{Calls: 100_000, Per: 24 * time.Hour, Burst: n})
			p := newPacer(t, pace.Config{Name: "vendor", Rates: rates, Store: s})
			ctx, cancel := context.WithCancel(t.Context())
			var v vendor
			var wg sync.WaitGroup
			for range n + 1000 {
				wg.Go(func() {
					if _, err := p.Wait(ctx, "k", 1); err == nil {
						v.call(1)
					}
				})
			}
			time.Sleep(n * (time.Second + slack) / rate * 11 / 10)
			synctest.Wait()
			require.GreaterOrEqual(t, v.total(), int64(n), takes)
			require.LessOrEqual(t, v.most(time.Second), int64(rate))
			const interval = 24 * time.Hour / (100_000 - n)
			require.LessOrEqual(t, int64(p.Snapshot().Keys[0].Ahead/interval), 2+takes.Milliseconds()/2, takes)
			time.Sleep(100 * interval)
			require.LessOrEqual(t, p.Snapshot().Keys[0].Ahead, 2*interval)
			cancel()
			wg.Wait()
		})
	}
}

// TestTheSlowestRateDecidesFromTheFirstCallOn: the fast one gives no tickets for slots that are far ahead.
func TestTheSlowestRateDecidesFromTheFirstCallOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newRemote()
		s.takes.Store(int64(time.Millisecond))
		p := newPacer(t, pace.Config{Name: "vendor", Rates: append(perSecond(500), pace.Rate{Calls: 101, Per: time.Hour, Burst: 2}), Store: s})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 30 {
			wg.Go(func() { _, _ = p.Wait(ctx, "k", 1) })
		}
		time.Sleep(time.Second)
		require.Less(t, p.Snapshot().Keys[0].Ahead, 2*time.Hour/100)
		cancel()
		wg.Wait()
	})
}

// TestProcessesUnderSeveralRatesAreAsFastAsTheOneThatDecides: slots of other processes in between are not
// those of the slow rate.
func TestProcessesUnderSeveralRatesAreAsFastAsTheOneThatDecides(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n, rate, processes = 4000, 500, 2
		s, start := newRemote(), time.Now()
		s.takes.Store(int64(20 * time.Millisecond))
		rates := append(perSecond(rate), pace.Rate{Calls: 100_000, Per: 24 * time.Hour, Burst: 50_000})
		var wg sync.WaitGroup
		for range processes {
			p := newPacer(t, pace.Config{Name: "vendor", Rates: rates, Store: s})
			for range n / processes {
				wg.Go(func() { _ = core.Must(p.Wait(t.Context(), "k", 1)) })
			}
		}
		wg.Wait()
		require.Less(t, time.Since(start), n*(time.Second+slack)/rate*11/10)
	})
}

// TestARateThatNeverDecidesGivesNoTickets: another one is as low at any time.
func TestARateThatNeverDecidesGivesNoTickets(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n, rate, shelf = 1000, 50, 150 * time.Millisecond
		s, start := newRemote(), time.Now()
		s.takes.Store(int64(100 * time.Millisecond))
		p := newPacer(t, pace.Config{Name: "vendor", Rates: append(perSecond(500), pace.Rate{Calls: 60 * rate, Per: time.Minute}), Slack: shelf, Store: s})
		var wg sync.WaitGroup
		for range n {
			wg.Go(func() { _ = core.Must(p.Wait(t.Context(), "k", 1)) })
		}
		wg.Wait()
		require.Less(t, time.Since(start), 23*time.Second) // 20 at the rate alone
	})
}

// TestAStoreWhoseRepliesComeTooLateIsNotAskedByMoreCalls: no permit of it can be used.
func TestAStoreWhoseRepliesComeTooLateIsNotAskedByMoreCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const rate, replies = 500, 200
		s := newRemote()
		s.takes.Store(int64(time.Second))
		p := newPacer(t, pace.Config{Name: "vendor", Rates: perSecond(rate), Store: s})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 4000 {
			wg.Go(func() { _, _ = p.Wait(ctx, "k", 1) })
		}
		time.Sleep(replies * time.Second)
		most := 1 + (25*time.Millisecond+slack)*rate/time.Second // calls that have a ticket
		require.LessOrEqual(t, s.calls.Load(), int64(most)*replies)
		cancel()
		wg.Wait()
	})
}
