package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/ratelimittest"
	"github.com/gresil/gresil/internal/registry"
)

// queueOf runs a test in a bubble with a limiter whose waits have no limit but the
// queue.
func queueOf(t *testing.T, limit ratelimit.Limit, most int64, f func(t bubble)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f(bubble{t, newLimiter(t, ratelimit.Config{Limit: limit, MaxWait: -1, MaxQueue: most})})
	})
}

// refusedAtOnce is a wait that must be refused, with what it was told.
//
//nolint:revive // the test comes first, as in every helper
func refusedAtOnce(tb testing.TB, ctx context.Context, l *ratelimit.Limiter, n int64) time.Duration {
	tb.Helper()
	start := time.Now()
	r, err := l.Wait(ctx, "k", n)
	require.ErrorIs(tb, err, ratelimit.ErrLimited)
	require.ErrorIs(tb, err, core.ErrRejected)
	after, ok := core.RetryAfter(err)
	require.Equal(tb, r.RetryAfter != limits.Never, ok)
	require.Equal(tb, max(0, r.RetryAfter), after)
	require.Zero(tb, time.Since(start), "at once")
	require.False(tb, r.Allowed)
	require.Zero(tb, r.Permits)
	return r.RetryAfter
}

func served(tb testing.TB, w waited) time.Duration {
	tb.Helper()
	require.NoError(tb, w.err)
	require.True(tb, w.r.Allowed)
	return w.took
}

func TestQueueLeavesInOrder(t *testing.T) {
	t.Parallel()
	const n, s = 1200, time.Second
	hundreds := func(i int) time.Duration { return time.Duration(i/100) * s }
	for _, c := range []struct {
		limit ratelimit.Limit
		due   func(i int) time.Duration
	}{
		{ratelimit.TokenBucket(3, s, 1), func(i int) time.Duration { return (time.Duration(i)*s + 2) / 3 }},
		{ratelimit.TokenBucket(10, s, 50), func(i int) time.Duration { return max(0, time.Duration(i-49)*100*ms) }},
		{ratelimit.FixedWindow(100, s), hundreds},
		{ratelimit.AlignedWindow(100, s), hundreds},
		{ratelimit.SlidingWindow(100, s, 10), hundreds},
		{ratelimit.SlidingLog(100, s), hundreds},
		{ratelimit.FixedWindow(100, s).And(ratelimit.SlidingLog(1000, time.Minute)), func(i int) time.Duration {
			return time.Duration(i/1000)*time.Minute + time.Duration(i%1000/100)*s
		}},
	} {
		t.Run(c.limit.String(), func(t *testing.T) {
			t.Parallel()
			queueOf(t, c.limit, n, func(t bubble) {
				start, left := time.Now(), make([]time.Duration, n)
				var wg sync.WaitGroup
				for i := range n {
					wg.Go(func() {
						if _, err := t.l.Wait(context.Background(), "k", 1); err != nil {
							t.Error(err)
						}
						left[i] = time.Since(start)
					})
					synctest.Wait()
				}
				require.Zero(t, time.Since(start))
				wg.Wait()
				for i, at := range left {
					require.Equal(t, c.due(i), at, "waiter %d", i)
				}
			})
		})
	}
}

func TestQueueIsBoundedInPermits(t *testing.T) {
	t.Parallel()
	queueOf(t, ratelimit.TokenBucket(1, time.Second, 10), 5, func(t bubble) {
		require.True(t, take(t, t.l, "k", 10).Allowed, "what is there at once is no queue")
		first := waitAt(t.Context(), t.l, 3)
		second := waitAt(t.Context(), t.l, 2)
		require.Equal(t, 2, t.l.Stats().Waiting)
		require.Positive(t, refusedAtOnce(t, t.Context(), t.l, 1), "5 permits wait already")
		require.True(t, take(t, t.l, "other", 10).Allowed)
		other := make(chan error, 1)
		go func() { _, err := t.l.Wait(t.Context(), "other", 5); other <- err }()
		synctest.Wait()
		require.Equal(t, 3, t.l.Stats().Waiting, "each key has a queue of its own")
		require.Equal(t, 3*time.Second, served(t, <-first))
		third := waitAt(t.Context(), t.l, 3)
		require.Positive(t, refusedAtOnce(t, t.Context(), t.l, 1))
		require.Equal(t, 5*time.Second, served(t, <-second))
		require.Equal(t, 5*time.Second, served(t, <-third), "from 3s to 8s")
		require.NoError(t, <-other)
		require.Positive(t, refusedAtOnce(t, t.Context(), t.l, 6), "more than the queue has room for")
		require.Zero(t, t.l.Stats().Waiting)
		require.EqualValues(t, 3, t.l.Stats().Rejected)
	})
}

func TestQueueByDefault(t *testing.T) {
	t.Parallel()
	for n, places := range map[int64]int{200: 5, 2000: 2} { // a thousand, or twice the capacity
		queueOf(t, ratelimit.PerSecond(n), 0, func(t bubble) {
			require.True(t, take(t, t.l, "k", n).Allowed)
			var last <-chan waited
			for range places {
				last = waitAt(t.Context(), t.l, n)
			}
			refusedAtOnce(t, t.Context(), t.l, 1)
			require.Equal(t, time.Duration(places)*time.Second, served(t, <-last))
		})
	}
	queueOf(t, ratelimit.PerSecond(1), -1, func(t bubble) {
		require.Zero(t, served(t, <-waitAt(t.Context(), t.l, 1)), "what is there needs no queue")
		require.Equal(t, time.Second, refusedAtOnce(t, t.Context(), t.l, 1))
	})
}

// A refusal by the queue says what the decision would: what is left, and which of joined limits is the narrowest.
func TestQueueRefusalIsADecision(t *testing.T) {
	t.Parallel()
	queueOf(t, ratelimit.TokenBucket(1, time.Second, 10), -1, func(t bubble) {
		require.True(t, take(t, t.l, "k", 7).Allowed)
		want := take(t, t.l, "k", 5)
		_, err := t.l.Wait(t.Context(), "k", 5)
		limited, ok := errors.AsType[*ratelimit.LimitedError](err)
		require.True(t, ok)
		want.Receipt = limited.Result.Receipt
		require.Equal(t, want, limited.Result)
		require.EqualValues(t, 3, limited.Result.Remaining)
	})
	queueOf(t, ratelimit.PerMinute(60).And(ratelimit.PerSecond(10)), 1, func(t bubble) {
		require.True(t, take(t, t.l, "k", 10).Allowed)
		waitAt(t.Context(), t.l, 1)
		_, err := t.l.Wait(t.Context(), "k", 1)
		limited, ok := errors.AsType[*ratelimit.LimitedError](err)
		require.True(t, ok)
		require.Equal(t, []int64{10, 1}, []int64{limited.Result.Limit, int64(limited.Result.Which)})
	})
}

func TestQueueRefusesWhatIsLate(t *testing.T) {
	t.Parallel()
	queueOf(t, ratelimit.TokenBucket(1, time.Second, 1), 100, func(t bubble) {
		require.True(t, take(t, t.l, "k", 1).Allowed)
		for range 3 {
			waitAt(t.Context(), t.l, 1)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second-1)
		defer cancel()
		require.Equal(t, 4*time.Second, refusedAtOnce(t, ctx, t.l, 1), "three are before it")
		later, stop := context.WithTimeout(t.Context(), 4*time.Second+1)
		defer stop()
		require.Equal(t, 4*time.Second, served(t, <-waitAt(later, t.l, 1)))
		require.Equal(t, limits.Never, refusedAtOnce(t, t.Context(), t.l, 2), "above the capacity")
	})
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, ratelimit.Config{Limit: ratelimit.TokenBucket(1, time.Second, 1), MaxWait: 2 * time.Second})
		require.True(t, take(t, l, "k", 1).Allowed)
		first, second := waitAt(t.Context(), l, 1), waitAt(t.Context(), l, 1)
		require.Equal(t, 3*time.Second, refusedAtOnce(t, t.Context(), l, 1), "past MaxWait")
		require.Equal(t, time.Second, served(t, <-first))
		require.Equal(t, 2*time.Second, served(t, <-second), "MaxWait to the nanosecond")
	})
}

func TestQueueAndWhoDoesNotWait(t *testing.T) {
	t.Parallel()
	const s = time.Second
	queueOf(t, ratelimit.TokenBucket(1, s, 3), 100, func(t bubble) {
		require.True(t, take(t, t.l, "k", 3).Allowed)
		head := waitAt(t.Context(), t.l, 3)
		time.Sleep(2 * s)
		r := take(t, t.l, "k", 1)
		require.False(t, r.Allowed, "two are there, and wanted")
		require.Equal(t, 2*s, r.RetryAfter, "after the head, which goes in 1s")
		require.Zero(t, takeAtMost(t, t.l, 2).Permits)
		require.Zero(t, takeAtMost(t, t.l, 1<<63-1).Permits, "all is no drain")
		require.True(t, take(t, t.l, "other", 3).Allowed)
		require.Equal(t, 3*s, served(t, <-head))
		time.Sleep(s)
		require.True(t, take(t, t.l, "k", 1).Allowed, "at the time that was quoted")
	})
	queueOf(t, ratelimit.TokenBucket(1, s, 3), 100, func(t bubble) { // nor does one who waits for less
		require.True(t, take(t, t.l, "k", 3).Allowed)
		large, small := waitAt(t.Context(), t.l, 3), waitAt(t.Context(), t.l, 1)
		time.Sleep(2 * s)
		require.Empty(t, small, "two are there, but it is not its turn")
		require.Equal(t, 3*s, served(t, <-large))
		require.Equal(t, 4*s, served(t, <-small))
	})
}

func TestQueueIsWokenByReset(t *testing.T) {
	t.Parallel()
	inBubbles(t, ratelimit.Every(2, 1000*time.Hour), func(t bubble) {
		require.True(t, take(t, t.l, "k", 2).Allowed)
		first, second, third := waitAt(t.Context(), t.l, 1), waitAt(t.Context(), t.l, 1), waitAt(t.Context(), t.l, 1)
		time.Sleep(time.Second)
		require.NoError(t, t.l.Reset(t.Context(), "k"))
		require.Equal(t, time.Second, served(t, <-first))
		require.Equal(t, time.Second, served(t, <-second))
		synctest.Wait()
		require.Empty(t, third, "a reset gives two, not three")
		require.Zero(t, mustPeek(t, t.l, "k").Remaining)
	})
}

func TestQueueIsTimedAnewBySetLimit(t *testing.T) {
	t.Parallel()
	const s = time.Second
	hour := func(burst int64) ratelimit.Limit { return ratelimit.TokenBucket(1, time.Hour, burst) }
	second := func(n int64) ratelimit.Limit { return ratelimit.TokenBucket(n, s, 1) }
	for name, c := range map[string]struct {
		before, after ratelimit.Limit
		at            time.Duration
		want          []time.Duration
	}{
		"a larger bucket":   {hour(1), hour(2), s, []time.Duration{s, time.Hour}},
		"a faster bucket":   {second(1), second(2), 500 * ms, []time.Duration{750 * ms, 1250 * ms, 1750 * ms}},
		"a slower bucket":   {second(2), second(1), 250 * ms, []time.Duration{500 * ms, 1500 * ms, 2500 * ms}},
		"a wider window":    {ratelimit.FixedWindow(1, 10*s), ratelimit.FixedWindow(2, 10*s), s, []time.Duration{s, 10 * s, 10 * s}},
		"a wider log":       {ratelimit.SlidingLog(1, 10*s), ratelimit.SlidingLog(2, 10*s), s, []time.Duration{s, 10 * s, 11 * s}},
		"a narrower window": {ratelimit.FixedWindow(1, 10*s), ratelimit.FixedWindow(1, 20*s), s, []time.Duration{10 * s, 30 * s}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			queueOf(t, c.before, 100, func(t bubble) {
				require.True(t, take(t, t.l, "k", ratelimittest.Capacity(c.before)).Allowed)
				var all []<-chan waited
				for range c.want {
					all = append(all, waitAt(t.Context(), t.l, 1))
				}
				time.Sleep(c.at)
				ratelimittest.SetLimit(t, t.l, c.after)
				for i, want := range c.want {
					require.Equal(t, want, served(t, <-all[i]), "waiter %d", i)
				}
			})
		})
	}
}

func TestQueueRefusesWhoBecomesLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, ratelimit.Config{Limit: ratelimit.TokenBucket(2, time.Second, 1), MaxWait: 1400 * ms})
		require.True(t, take(t, l, "k", 1).Allowed)
		short, cancel := context.WithTimeout(t.Context(), 1300*ms)
		defer cancel()
		first := waitAt(short, l, 1)
		second := waitAt(t.Context(), l, 1)
		time.Sleep(250 * ms)
		ratelimittest.SetLimit(t, l, ratelimit.TokenBucket(1, time.Second, 1))
		require.Equal(t, 500*ms, served(t, <-first), "what the former limit gives back")
		w := <-second
		require.ErrorIs(t, w.err, ratelimit.ErrLimited)
		require.Equal(t, 500*ms, w.took, "when its turn comes")
		var limited *ratelimit.LimitedError
		require.ErrorAs(t, w.err, &limited)
		require.Equal(t, time.Second, limited.RetryAfter())
		require.Zero(t, l.Stats().Waiting)
	})
	synctest.Test(t, func(t *testing.T) { // below the cost of who waits
		l := newLimiter(t, ratelimit.Config{Limit: ratelimit.TokenBucket(1, time.Second, 5), MaxWait: -1})
		require.True(t, take(t, l, "k", 5).Allowed)
		large, small := waitAt(t.Context(), l, 5), waitAt(t.Context(), l, 1)
		ratelimittest.SetLimit(t, l, ratelimit.TokenBucket(1, time.Second, 2))
		w := <-large
		require.ErrorIs(t, w.err, ratelimit.ErrLimited)
		require.Zero(t, w.took)
		require.Equal(t, limits.Never, w.r.RetryAfter)
		require.Equal(t, 4*time.Second, served(t, <-small), "it holds two, and five are taken")
	})
}

func TestQueueHandsOverWhenOneLeaves(t *testing.T) {
	t.Parallel()
	queueOf(t, ratelimit.TokenBucket(1, time.Second, 1), 100, func(t bubble) {
		require.True(t, take(t, t.l, "k", 1).Allowed)
		ctx, cancel := context.WithCancelCause(t.Context())
		first, second := waitAt(ctx, t.l, 1), waitAt(t.Context(), t.l, 1)
		time.Sleep(500 * ms)
		gone := errors.New("gone")
		cancel(gone)
		w := <-first
		require.ErrorIs(t, w.err, gone)
		require.Zero(t, w.r)
		require.Equal(t, time.Second, served(t, <-second))
	})
	what := []ratelimit.Limit{
		ratelimit.FixedWindow(10, time.Second), ratelimit.SlidingLog(10, time.Second), ratelimit.SlidingWindow(10, time.Second, 10),
		ratelimit.TokenBucket(10, 10*time.Second, 10),
	}
	inBubbles(t, what, func(t bubble) { // what it skipped
		require.True(t, take(t, t.l, "k", 8).Allowed)
		ctx, cancel := context.WithCancel(t.Context())
		large, small, next := waitAt(ctx, t.l, 5), waitAt(t.Context(), t.l, 2), waitAt(t.Context(), t.l, 1)
		time.Sleep(500 * ms)
		require.Empty(t, small)
		cancel()
		require.ErrorIs(t, (<-large).err, context.Canceled)
		require.Equal(t, 500*ms, served(t, <-small), "the two that it did not fit into")
		require.Equal(t, time.Second, served(t, <-next))
	})
}

// A cancel at the very instant of the grant: one of the two wins, and the permit is
// either used or there.
func TestQueueCancelRacesGrant(t *testing.T) {
	t.Parallel()
	inBubbles(t, ratelimit.Every(1, time.Second), func(t bubble) {
		var wg sync.WaitGroup
		var won atomic.Int64
		l, due := t.l, spec(t.l.Config().Limit).Period
		if spec(l.Config().Limit).Algorithm == limits.SlidingCounter {
			due *= 2
		}
		for i := range 300 {
			key := fmt.Sprint(i)
			require.True(t, take(t, l, key, 1).Allowed)
			ctx, cancel := context.WithCancel(t.Context())
			if i%2 == 0 { // before or after the timer of the wait, as the queue may have it
				time.AfterFunc(due, cancel)
			}
			wg.Go(func() {
				defer cancel()
				_, err := l.Wait(ctx, key, 1)
				r, _ := l.Peek(ctx, key) // which in memory does not care for ctx
				left := r.Remaining
				if err == nil {
					won.Add(1)
					left++
				} else if !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				if left != 1 {
					t.Errorf("key %s: err %v, and %d permits of 1", key, err, left)
				}
				if i%2 == 1 && err != nil {
					t.Errorf("key %s was not canceled: %v", key, err)
				}
			})
		}
		wg.Wait()
		s := l.Stats()
		require.EqualValues(t, 300+won.Load(), s.Allowed)
		require.EqualValues(t, 300-won.Load(), s.Canceled)
		require.GreaterOrEqual(t, won.Load(), int64(150))
	})
}

// A wait ends with its limiter, also while a slow store is asked.
func TestCloseEndsWaits(t *testing.T) {
	t.Parallel()
	for _, delay := range []time.Duration{0, 100 * ms} {
		synctest.Test(t, func(t *testing.T) {
			reg := &core.Registry{}
			cfg := ratelimit.Config{Name: "x", Registry: reg, Limit: ratelimit.PerHour(1), MaxWait: -1}
			if delay > 0 {
				cfg.Store = slowed(openMemory(t), delay)
			}
			l := newLimiter(t, cfg)
			_, there := core.Lookup[*ratelimit.Limiter](reg, "x")
			require.True(t, there)
			require.True(t, take(t, l, "k", 1).Allowed)
			var all []<-chan waited
			for range 20 {
				all = append(all, waitAt(t.Context(), l, 1))
				time.Sleep(delay * 3 / 2)
			}
			time.Sleep(time.Minute)
			require.Equal(t, 20, l.Stats().Waiting)
			closed := time.Now()
			require.NoError(t, l.Close())
			require.NoError(t, l.Close(), "twice is fine")
			for _, c := range all {
				w := <-c
				require.ErrorIs(t, w.err, core.ErrClosed)
				require.Zero(t, w.r)
			}
			require.LessOrEqual(t, time.Since(closed), delay)
			time.Sleep(time.Second)
			require.Zero(t, l.Stats().Waiting)
			require.EqualValues(t, 20, l.Stats().Canceled)
			_, err := l.Wait(t.Context(), "k", 1)
			require.ErrorIs(t, err, core.ErrClosed)
			if cfg.Store == nil {
				_, err = l.Take(t.Context(), "k", 1)
				require.ErrorIs(t, err, core.ErrClosed)
			} else { // what the first waiter had reserved is given back
				cfg.Registry = &core.Registry{}
				require.LessOrEqual(t, take(t, newLimiter(t, cfg), "k", 0).FullAfter, time.Hour)
			}
			_, there = core.Lookup[*ratelimit.Limiter](reg, "x")
			require.False(t, there)
		})
	}
}

// After any mix of waits, cancels, refusals, evictions and a close, a key is as if those alone had been who were served, and all
// counters add up.
func TestQueueLosesNothing(t *testing.T) {
	t.Parallel()
	const s = time.Second
	all := append(ratelimit.Every(5, s), ratelimit.TokenBucket(8, s, 1), ratelimit.AlignedWindow(5, s).And(ratelimit.SlidingLog(12, 3*s)),
		ratelimit.SlidingCounter(5, s).And(ratelimit.TokenBucket(20, 5*s, 5)))
	for i, limit := range all {
		t.Run(limit.String(), func(t *testing.T) {
			t.Parallel()
			all := map[string]uint64{}
			for seed := range uint64(5) {
				synctest.Test(t, func(t *testing.T) {
					for what, n := range mixed(t, limit, rand.New(rand.NewPCG(seed, uint64(i)))) {
						all[what] += n
					}
				})
			}
			for _, what := range []string{"granted", "limited", "canceled", "closed", "taken", "refused"} {
				require.Positive(t, all[what], "%s: the mix lacks something", what)
			}
		})
	}
}

// mixed returns how waits and takes ended, and the events of that.
func mixed(t *testing.T, limit ratelimit.Limit, rng *rand.Rand) map[string]uint64 {
	t.Helper()
	var mu sync.Mutex
	n := map[string]uint64{}
	count := func(what string) {
		mu.Lock()
		defer mu.Unlock()
		n[what]++
	}
	cfg := ratelimit.Config{Store: openMemory(t), Limit: limit, MaxWait: 3 * time.Second, MaxQueue: 12}
	cfg.Registry = onEvents(func(e registry.Event) {
		if count(e.Text); e.Text == "permits granted" && e.Attr("waited").Duration() > 0 {
			count("waited")
		}
	})
	l := newLimiter(t, cfg)
	mirror := newLimiter(t, ratelimit.Config{Limit: limit}) // only those who are served take from it
	serve := func(permits int64) {
		if r, err := mirror.Take(context.Background(), "k", permits); err != nil || !r.Allowed {
			t.Errorf("%d were granted, and are too many: %+v, %v", permits, r, err)
		}
	}
	var wg sync.WaitGroup
	for range 300 {
		switch rng.IntN(3) {
		case 0:
			time.Sleep(time.Duration(rng.Int64N(int64(300 * ms))))
		case 1:
			time.Sleep(time.Duration(rng.IntN(4)) * 100 * ms) // many at one instant
		}
		cost := 1 + rng.Int64N(min(5, ratelimittest.Capacity(limit)))
		if rng.IntN(4) == 0 {
			if r := take(t, l, "k", cost); r.Allowed {
				serve(cost)
				count("taken")
			} else {
				count("refused")
			}
			continue
		}
		ctx, cancel := context.WithCancel(context.Background())
		if rng.IntN(2) == 0 {
			time.AfterFunc(time.Duration(rng.IntN(30))*100*ms, cancel)
		}
		wg.Go(func() {
			defer cancel()
			r, err := l.Wait(ctx, "k", cost)
			switch {
			case err == nil && r.Permits == cost:
				serve(cost)
				count("granted")
			case errors.Is(err, ratelimit.ErrLimited):
				count("limited")
			case errors.Is(err, context.Canceled):
				count("canceled")
			case errors.Is(err, core.ErrClosed):
				count("closed")
			default:
				t.Errorf("%+v, %v", r, err)
			}
		})
		if rng.IntN(2) == 0 {
			synctest.Wait()
		}
	}
	synctest.Wait()
	require.NoError(t, l.Close())
	wg.Wait()
	synctest.Wait() // what a caller that has left had asked for comes back after it

	stats := l.Stats()
	require.Zero(t, stats.Waiting)
	require.Equal(t, []uint64{n["granted"] + n["taken"], n["limited"] + n["refused"]}, []uint64{stats.Allowed, stats.Rejected})
	for text, want := range map[string]uint64{
		"permits granted": stats.Allowed, "permits refused": stats.Rejected, "wait for permits canceled": stats.Canceled,
	} {
		require.Equal(t, want, n[text], text)
	}
	require.LessOrEqual(t, stats.Canceled, n["canceled"]+n["closed"], "who had no place yet is not counted")
	later := n["waiting for permits"] - n["waited"] - stats.Canceled // refused when they had a place already
	require.LessOrEqual(t, later, n["limited"])

	again := newLimiter(t, cfg) // the store has what was taken
	got, want := mustPeek(t, again, "k"), mustPeek(t, mirror, "k")
	// A reservation that was given back has closed the rest of the present window, and behind later takes a part of it is dropped.
	require.LessOrEqual(t, got.Remaining, want.Remaining)
	time.Sleep(time.Minute)
	require.Equal(t, ratelimittest.Capacity(limit), mustPeek(t, again, "k").Remaining)
	return n
}

// The only shard is swept when a wait ends: the window before it is over, and the key is dropped or its counts are written anew. A
// take at that time comes before or after the timer of the waiter, and then it is the take that sweeps.
func TestWaitEndsInASweptTable(t *testing.T) {
	t.Parallel()
	const n = 1_000_000
	for _, limit := range []ratelimit.Limit{
		ratelimit.PerSecond(n), ratelimit.AlignedWindow(n, time.Second),
		ratelimit.PerSecond(n).And(ratelimit.SlidingCounter(1<<30, time.Hour)),
	} {
		for i := range 40 {
			synctest.Test(t, func(t *testing.T) {
				l := newLimiter(t, ratelimit.Config{Limit: limit, MaxKeys: 16, MaxQueue: 2 * n})
				time.Sleep(10 * time.Second)
				mustPeek(t, l, "other")
				time.Sleep(200 * time.Millisecond)
				r := take(t, l, "k", n)
				require.True(t, r.Allowed)
				time.Sleep(r.FullAfter / 2)
				done := waitAt(t.Context(), l, n)
				time.Sleep(r.FullAfter - r.FullAfter/2)
				if i%2 == 0 {
					require.False(t, take(t, l, "k", 1).Allowed)
				}
				require.Equal(t, r.FullAfter-r.FullAfter/2, served(t, <-done))
				require.False(t, take(t, l, "k", 1).Allowed, limit)
				time.Sleep(time.Second - time.Microsecond)
				require.False(t, take(t, l, "k", 1).Allowed, limit)
			})
		}
	}
}

// A rate gives nothing back when the call is over: that is what a bulkhead does.
func TestTheEndOfACallGivesNothingBack(t *testing.T) {
	t.Parallel()
	l := newLimiter(t, ratelimit.Config{Limit: ratelimit.PerHour(2)})
	left := func() int64 { return mustPeek(t, l, "").Remaining }
	_, err := ratelimit.Do(t.Context(), l, "", func(context.Context) (int, error) {
		require.EqualValues(t, 1, left())
		return 0, nil
	})
	require.NoError(t, err)
	require.EqualValues(t, 1, left())
	broken := errors.New("broken")
	_, err = ratelimit.Do(t.Context(), l, "", func(context.Context) (int, error) { return 0, broken })
	require.ErrorIs(t, err, broken)
	require.Zero(t, left())
}

// TestHeadWakesForBothRefunds: the first waiter wants two permits, and one refund is not enough.
func TestHeadWakesForBothRefunds(t *testing.T) {
	t.Parallel()
	inBubbles(t, ratelimit.Every(3, 1000*time.Hour), func(t bubble) {
		var holders []ratelimit.Result
		for range 3 {
			holders = append(holders, take(t, t.l, "k", 1))
		}
		done := waitAt(t.Context(), t.l, 2)
		time.Sleep(time.Second)
		refund(t, t.l, holders[2])
		synctest.Wait()
		require.Empty(t, done, "it wants two")
		time.Sleep(time.Second)
		refund(t, t.l, holders[1])
		w := <-done
		require.NoError(t, w.err)
		require.Equal(t, 2*time.Second, w.took)
		require.Zero(t, mustPeek(t, t.l, "k").Remaining)
	})
}

// crowd has 200 callers a second for so long, each of which gives up after half a second, and returns how many were served.
func crowd(long time.Duration, wait func(ctx context.Context) error) int64 {
	var served atomic.Int64
	var all sync.WaitGroup
	for range 200 * int(long/time.Second) {
		all.Go(func() {
			ctx, cancel := context.WithCancel(context.Background()) // without a deadline: nobody knows when it leaves
			defer time.AfterFunc(500*ms, cancel).Stop()
			if wait(ctx) == nil {
				served.Add(1)
			}
		})
		time.Sleep(5 * ms)
	}
	all.Wait()
	time.Sleep(time.Second) // for refunds
	return served.Load()
}

func TestWaitersThatGiveUpStarveNobody(t *testing.T) {
	t.Parallel()
	const long = 4 * time.Second
	for name, delay := range map[string]time.Duration{"in memory": 0, "near": 300 * time.Microsecond, "far": 10 * ms, "very far": 60 * ms} {
		for _, limit := range []ratelimit.Limit{
			ratelimit.TokenBucket(20, time.Second, 1), ratelimit.AlignedWindow(20, time.Second), ratelimit.SlidingLog(20, time.Second),
		} {
			for _, processes := range []int{1, 2} {
				t.Run(fmt.Sprint(name, " ", limit, " ", processes), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) {
						store := openMemory(t)
						if delay > 0 {
							store = slowed(store, delay)
						}
						var all []*ratelimit.Limiter
						for range processes {
							all = append(all, newLimiter(t, ratelimit.Config{Name: "api", Store: store, Limit: limit}))
						}
						var next atomic.Int64
						got := crowd(long, func(ctx context.Context) error {
							_, err := all[next.Add(1)%int64(processes)].Wait(ctx, "k", 1)
							return err
						})
						require.GreaterOrEqual(t, got, int64(20*4*9/10))
						require.LessOrEqual(t, got, int64(20*5))
					})
				})
			}
		}
	}
}

func TestStoreFailsDuringAWait(t *testing.T) {
	t.Parallel()
	const s = time.Second
	for policy, served := range map[ratelimit.FailurePolicy][]time.Duration{
		ratelimit.Allow: {s, s, s, s},         // without a limit, but not before the turn of the first
		ratelimit.Deny:  {s},                  // who had its permit
		ratelimit.Local: {s, s, 3 * s, 5 * s}, // half of the limit
	} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := sharing{&ratelimittest.Failing{Store: openMemory(t)}}
				l := newLimiter(t, ratelimit.Config{Store: store, Limit: ratelimit.TokenBucket(2, 2*s, 1), OnStoreError: policy})
				require.True(t, take(t, l, "k", 1).Allowed)
				var all []<-chan waited
				for range 4 {
					all = append(all, waitAt(t.Context(), l, 1))
				}
				time.Sleep(500 * ms)
				store.Down()
				for i, c := range all {
					w := <-c
					if i < len(served) {
						require.NoError(t, w.err)
						require.Equal(t, served[i], w.took)
					} else {
						require.ErrorIs(t, w.err, ratelimit.ErrStore)
						require.Equal(t, s, w.took)
					}
				}
				require.Zero(t, l.Stats().Canceled, "the store has ended them")
			})
		})
	}
}

// A wait that is canceled gives its place back to a store that is slow, and does
// not hang on one that does not answer.
func TestCanceledWaitAndARemoteStore(t *testing.T) {
	t.Parallel()
	for delay, back := range map[time.Duration]bool{time.Millisecond: true, time.Hour: false} {
		synctest.Test(t, func(t *testing.T) {
			slow := slowed(openMemory(t), time.Millisecond)
			l := newLimiter(t, ratelimit.Config{Store: slow, Limit: ratelimit.TokenBucket(1, time.Minute, 1), MaxWait: -1})
			require.True(t, take(t, l, "k", 1).Allowed)
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, func() { slow.Delay(delay); cancel() })
			start := time.Now()
			r, err := l.Wait(ctx, "k", 1)
			require.ErrorIs(t, err, context.Canceled)
			require.Zero(t, r, "an error comes with nothing that could be refunded again")
			require.LessOrEqual(t, time.Since(start), 2*time.Second)
			slow.Delay(0)
			wait := take(t, l, "k", 1).RetryAfter
			require.Equal(t, back, wait < time.Minute, "%v", wait)
		})
	}
}

func TestWaitWithADoneContext(t *testing.T) {
	t.Parallel()
	l := newLimiter(t, ratelimit.Config{Limit: ratelimit.PerHour(1)})
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("gone")
	cancel(gone)
	_, err := l.Wait(ctx, "k", 1)
	require.ErrorIs(t, err, gone)
	require.True(t, take(t, l, "k", 1).Allowed)
}

// A hook that ends its goroutine leaves neither a waiter nor a reservation.
func TestGoexitInAHook(t *testing.T) {
	t.Parallel()
	for _, remote := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			leave := true
			cfg := ratelimit.Config{Limit: ratelimit.PerMinute(1), MaxWait: -1, Registry: onEvents(func(e registry.Event) {
				if leave && e.Text == "waiting for permits" {
					runtime.Goexit()
				}
			})}
			if remote {
				cfg.Store = &ratelimittest.Failing{Store: openMemory(t)}
			}
			l := newLimiter(t, cfg)
			require.True(t, take(t, l, "k", 1).Allowed)
			for range 5 {
				var all sync.WaitGroup
				all.Go(func() { _, _ = l.Wait(context.Background(), "k", 1) })
				all.Wait()
			}
			leave = false
			require.Equal(t, time.Minute, served(t, <-waitAt(t.Context(), l, 1)))
			require.Zero(t, l.Stats().Waiting)
		})
	}
}

// A change that takes its time over a store applies also to who has begun to wait meanwhile.
func TestQueueThatFormsDuringAChange(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(l *ratelimit.Limiter, taken ratelimit.Result) error{
		"reset":  func(l *ratelimit.Limiter, _ ratelimit.Result) error { return l.Reset(context.Background(), "k") },
		"refund": func(l *ratelimit.Limiter, taken ratelimit.Result) error { return l.Refund(context.Background(), taken) },
		"Config": func(l *ratelimit.Limiter, _ ratelimit.Result) error {
			cfg := l.Config()
			cfg.Limit = ratelimit.PerHour(10)
			return l.SetConfig(cfg)
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			slow := slowed(openMemory(t), 10*ms)
			l := newLimiter(t, ratelimit.Config{Store: slow, Limit: ratelimit.PerHour(1), MaxWait: -1})
			taken := take(t, l, "k", 1)
			require.True(t, taken.Allowed)
			require.True(t, take(t, l, "other", 1).Allowed)
			other := make(chan struct{})
			go func() { _, _ = l.Wait(context.Background(), "other", 1); close(other) }() // gives its reservation back for a new Config
			time.Sleep(time.Second)
			slow.Delay(500 * ms)
			changed := make(chan error)
			go func() { changed <- change(l, taken) }()
			synctest.Wait()
			slow.Delay(10 * ms)
			w := waitAt(t.Context(), l, 1)
			require.NoError(t, <-changed)
			require.LessOrEqual(t, served(t, <-w), time.Second, name)
			require.NoError(t, l.Close())
			<-other
			time.Sleep(time.Second) // its permits are given back
		})
	}
}

// A reservation that is on its way during a change is decided again.
func TestChangeDuringAReservation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, ratelimit.Config{Store: slowed(openMemory(t), 100*ms), Limit: ratelimit.PerHour(1), MaxWait: -1})
		require.True(t, take(t, l, "k", 1).Allowed)
		w := waitAt(t.Context(), l, 1)
		time.Sleep(150 * ms) // it was refused, and reserves
		ratelimittest.SetLimit(t, l, ratelimit.PerHour(2))
		require.LessOrEqual(t, served(t, <-w), time.Second)
	})
}

func TestQueueLeavesNoKeys(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, ratelimit.Config{Limit: ratelimit.PerSecond(1)})
		for i := range 1000 {
			go func() {
				for range 2 {
					_, err := l.Wait(t.Context(), fmt.Sprint(i), 1)
					if err != nil {
						t.Error(err)
					}
				}
			}()
		}
		synctest.Wait()
		require.Equal(t, 1000, l.Stats().Waiting)
		time.Sleep(2*time.Minute + time.Second)
		require.Zero(t, l.Stats().Waiting)
		require.Zero(t, l.Stats().Keys)
	})
}

// A window gives all of its permits at once, so as many wait for its end alone.
func TestWaitForWholeWindow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, ratelimit.Config{Limit: ratelimit.FixedWindow(10, time.Minute), MaxWait: 61 * time.Second})
		require.True(t, take(t, l, "k", 10).Allowed)
		errs := make(chan error, 10)
		for range cap(errs) {
			go func() {
				_, err := l.Wait(t.Context(), "k", 1)
				errs <- err
			}()
			synctest.Wait()
		}
		_, err := l.Wait(t.Context(), "k", 1)
		require.ErrorIs(t, err, ratelimit.ErrLimited, "that is for the window after it")
		for range cap(errs) {
			require.NoError(t, <-errs)
		}
	})
}
