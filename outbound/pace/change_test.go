package pace_test

import (
	"context"
	"math"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/outbound/pace"
)

// TestRepliesSlowerThanSlackAreAnErrorForCallsThatWait: their slots are ahead of the reply.
func TestRepliesSlowerThanSlackAreAnErrorForCallsThatWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newRemote()
		p := newPacer(t, pace.Config{Name: "vendor", Rates: perSecond(1), Store: s})
		_ = core.Must(p.Wait(t.Context(), "k", 1))
		s.takes.Store(int64(slack + time.Millisecond))
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		_, err := p.Wait(ctx, "k", 1)
		require.ErrorIs(t, err, pace.ErrStore)
		_, err = p.Reserve(t.Context(), "k", 1)
		require.ErrorIs(t, err, pace.ErrStore)
	})
}

// TestWaitingCallsComeUnderNewRatesAtOnce: the call with the ticket keeps its slot, an hour ahead.
func TestWaitingCallsComeUnderNewRatesAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, pace.Config{Rates: []pace.Rate{{Calls: 1, Per: time.Hour}}})
		_ = core.Must(p.Wait(t.Context(), "k", 1))
		var wg sync.WaitGroup
		var mu sync.Mutex
		var waits []time.Duration
		start := time.Now()
		for range 5 {
			wg.Go(func() {
				_ = core.Must(p.Wait(t.Context(), "k", 1))
				mu.Lock()
				waits = append(waits, time.Since(start))
				mu.Unlock()
			})
			synctest.Wait()
		}
		require.NoError(t, p.SetRates(perSecond(100)...))
		wg.Wait()
		require.Less(t, waits[4], time.Second, "also the one that had a slot")
	})
}

// TestASpareOfAnOldRateIsNotUsed: it lies an hour ahead.
func TestASpareOfAnOldRateIsNotUsed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, pace.Config{Rates: []pace.Rate{{Calls: 1, Per: time.Hour}}})
		_ = core.Must(p.Wait(t.Context(), "k", 1))
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, err := p.Wait(ctx, "k", 1)
		require.ErrorIs(t, err, context.Canceled)
		require.NoError(t, p.SetRates(perSecond(100)...))
		start := time.Now()
		_ = core.Must(p.Wait(t.Context(), "k", 1))
		require.Less(t, time.Since(start), 100*time.Millisecond)
	})
}

// TestSubKeysOfCallsThatLeftAreForgotten: one call waits for a long time, and others leave.
func TestSubKeysOfCallsThatLeftAreForgotten(t *testing.T) {
	t.Parallel()
	for _, waiting := range []int{1, 2} { // one with the ticket, and one in the queue
		t.Run(strconv.Itoa(waiting), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := 0
				p := newPacer(t, pace.Config{Rates: []pace.Rate{{Calls: 1, Per: time.Hour}}, Fair: func(context.Context) string { n++; return strconv.Itoa(n) }})
				_ = core.Must(p.Wait(t.Context(), "k", 1))
				var wg sync.WaitGroup
				for range waiting {
					wg.Go(func() { _, _ = p.Wait(t.Context(), "k", 1) })
					synctest.Wait()
				}
				for i := range 1000 {
					ctx, cancel := context.WithCancel(t.Context())
					if waiting == 1 || i%2 == 0 { // it is rejected at once
						ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
					} else {
						time.AfterFunc(time.Millisecond, cancel)
					}
					_, err := p.Wait(ctx, "k", 1)
					require.Error(t, err)
					cancel()
				}
				require.Less(t, p.Lines("k"), 100)
				require.NoError(t, p.Close())
				wg.Wait()
				require.Zero(t, p.Lines("k"))
			})
		})
	}
}

// TestRefreshRunsOnceIfToldTo: RefreshEvery is the longest duration.
func TestRefreshRunsOnceIfToldTo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := 0
		p := newPacer(t, pace.Config{Rates: perSecond(1000), RefreshEvery: math.MaxInt64, Refresh: func(context.Context) ([]pace.Rate, error) { n++; return perSecond(1000), nil }})
		for range 3 {
			time.Sleep(time.Hour)
			_ = core.Must(p.Wait(t.Context(), "k", 1))
		}
		require.Equal(t, 1, n)
	})
}

// TestTheAnswerOfTheVendorReplacesRatesThatWereSetMeanwhile: it is that of before.
func TestTheAnswerOfTheVendorReplacesRatesThatWereSetMeanwhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var p *pace.Pacer
		p = newPacer(t, pace.Config{Rates: perSecond(10), Refresh: func(context.Context) ([]pace.Rate, error) {
			return perSecond(10), p.SetRates(perSecond(5)...)
		}})
		_ = core.Must(p.Wait(t.Context(), "k", 1))
		require.Equal(t, perSecond(10), p.Config().Rates)
	})
}

// TestACallThatLeavesAtAChangeOfRatesLeavesNoSpare: its slot is one of the old rates, an hour ahead.
func TestACallThatLeavesAtAChangeOfRatesLeavesNoSpare(t *testing.T) {
	t.Parallel()
	for range 20 { // the call can see either end first
		synctest.Test(t, func(t *testing.T) {
			p := newPacer(t, pace.Config{Rates: []pace.Rate{{Calls: 1, Per: time.Hour}}})
			_ = core.Must(p.Wait(t.Context(), "k", 1))
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			wg.Go(func() { _, _ = p.Wait(ctx, "k", 1) })
			synctest.Wait()
			require.NoError(t, p.SetRates(perSecond(100)...))
			cancel()
			wg.Wait()
			start := time.Now()
			_ = core.Must(p.Wait(t.Context(), "k", 1))
			require.Less(t, time.Since(start), 100*time.Millisecond)
		})
	}
}
