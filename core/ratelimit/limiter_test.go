package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/eventtest"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/ratelimittest"
	"github.com/gresil/gresil/internal/registry"
)

func newLimiter(tb testing.TB, cfg ratelimit.Config) *ratelimit.Limiter {
	tb.Helper()
	if cfg.Store != nil && cfg.Name == "" {
		cfg.Name = "default"
	}
	l, err := ratelimit.New(cfg)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, l.Close()) })
	return l
}

func take(tb testing.TB, l *ratelimit.Limiter, key string, n int64) ratelimit.Result { //nolint:thelper // see below
	r, err := l.Take(tb.Context(), key, n)
	if err != nil { // it is called so often that the assertion would be most of the time
		tb.Helper()
		require.NoError(tb, err)
	}
	return r
}

func TestZeroConfigIs1000PerMinute(t *testing.T) {
	t.Parallel()
	l := newLimiter(t, ratelimit.Config{})
	require.Equal(t, "default", l.Name())
	require.Equal(t, ratelimit.Config{Limits: map[string]ratelimit.Limit{}}, l.Config())
	require.Equal(t, ratelimit.PerMinute(1000), l.Limit())
	require.EqualValues(t, 0, take(t, l, "k", 1000).Remaining)
	require.False(t, take(t, l, "k", 1).Allowed)
}

func TestRefusedTakesConsumeNothing(t *testing.T) {
	t.Parallel()
	l := newLimiter(t, ratelimit.Config{Limit: ratelimit.FixedWindow(1000, ratelimit.MaxPeriod)})
	for range 1000 {
		require.True(t, take(t, l, "k", 1).Allowed)
	}
	require.False(t, take(t, l, "k", 1).Allowed)

	l = newLimiter(t, ratelimit.Config{Limit: ratelimit.PerHour(10)})
	require.True(t, take(t, l, "k", 4).Allowed)
	require.True(t, take(t, l, "k", 4).Allowed)
	require.False(t, take(t, l, "k", 3).Allowed)
	require.True(t, take(t, l, "k", 2).Allowed)
}

func TestAWaitThatCannotFitIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, ratelimit.Config{Limit: ratelimit.PerMinute(1), MaxWait: time.Second})
		start := time.Now()
		_, err := l.Wait(t.Context(), "k", 1)
		require.NoError(t, err)
		_, err = l.Wait(t.Context(), "k", 1)
		require.ErrorIs(t, err, ratelimit.ErrLimited)
		require.ErrorIs(t, err, core.ErrRejected)
		after, ok := core.RetryAfter(err)
		require.True(t, ok)
		require.Equal(t, time.Minute, after)
		require.Zero(t, time.Since(start), "refused without waiting")

		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		patient := newLimiter(t, ratelimit.Config{Limit: ratelimit.PerMinute(1), MaxWait: -1})
		_, err = patient.Wait(ctx, "k", 1)
		require.NoError(t, err)
		_, err = patient.Wait(ctx, "k", 1)
		require.ErrorIs(t, err, ratelimit.ErrLimited, "the deadline comes first")
		require.Zero(t, time.Since(start))
	})
}

func TestRetryAfterIsTheRestOfTheWindow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, ratelimit.Config{Limit: ratelimit.PerMinute(1)})
		require.True(t, take(t, l, "k", 1).Allowed)
		time.Sleep(15 * time.Second)
		require.Equal(t, 45*time.Second, take(t, l, "k", 1).RetryAfter)
	})
}

func TestNonsenseIsAnError(t *testing.T) {
	t.Parallel()
	l := newLimiter(t, ratelimit.Config{})
	_, err := l.Take(t.Context(), "k", -1)
	require.ErrorIs(t, err, core.ErrConfig)
	require.EqualError(t, err, "ratelimit cost = -1: must be >= 0 (0 only looks)")
	_, err = l.Wait(t.Context(), "k", -1)
	require.ErrorIs(t, err, core.ErrConfig)
	require.Zero(t, l.Stats().StoreErrors)
}

func TestTwoWindowsMeetAtTheirBorder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, ratelimit.Config{Limit: ratelimit.PerMinute(5)})
		require.True(t, take(t, l, "k", 1).Allowed) // the window starts here
		time.Sleep(59 * time.Second)
		require.True(t, take(t, l, "k", 4).Allowed)
		time.Sleep(1500 * time.Millisecond)
		require.True(t, take(t, l, "k", 5).Allowed)
	})
}

func TestBucketRefillsAndCarriesFractions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, ratelimit.Config{Limit: ratelimit.TokenBucket(1, time.Second, 5)})
		require.True(t, take(t, l, "a", 3).Allowed)
		time.Sleep(2 * time.Second)
		require.EqualValues(t, 3, take(t, l, "a", 1).Remaining)

		require.True(t, take(t, l, "b", 5).Allowed)
		time.Sleep(2900 * time.Millisecond)
		require.True(t, take(t, l, "b", 2).Allowed)
		time.Sleep(100 * time.Millisecond)
		require.True(t, take(t, l, "b", 1).Allowed)
		require.False(t, take(t, l, "b", 1).Allowed)
	})
}

func TestNoPatienceMeansNoQueue(t *testing.T) {
	t.Parallel()
	l := newLimiter(t, ratelimit.Config{Limit: ratelimit.PerHour(1), MaxWait: time.Nanosecond})
	require.True(t, take(t, l, "k", 1).Allowed)
	_, err := l.Wait(t.Context(), "k", 1)
	require.ErrorIs(t, err, ratelimit.ErrLimited)
}

func TestDrain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, ratelimit.Config{})
		require.EqualValues(t, 700, take(t, l, "k", 300).Remaining)
		time.Sleep(10 * time.Second)
		r, err := l.Drain(t.Context(), "k")
		require.NoError(t, err)
		require.True(t, r.Allowed)
		require.EqualValues(t, 700, r.Permits)
		require.Equal(t, 50*time.Second, take(t, l, "k", 1).RetryAfter)
		r, err = l.Drain(t.Context(), "k")
		require.NoError(t, err)
		require.Zero(t, r.Permits, "nothing is left")
		time.Sleep(50 * time.Second)
		require.EqualValues(t, 1000, take(t, l, "k", 0).Remaining)
	})
}

func TestCloseEndsWaitsAndCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reg := &core.Registry{}
		l := newLimiter(t, ratelimit.Config{Name: "x", Registry: reg, Limit: ratelimit.PerSecond(1)})
		_, there := core.Lookup[*ratelimit.Limiter](reg, "x")
		require.True(t, there)
		require.True(t, take(t, l, "k", 1).Allowed)
		errs := make(chan error)
		go func() { _, err := l.Wait(context.Background(), "k", 1); errs <- err }()
		synctest.Wait()
		require.Equal(t, 1, l.Stats().Waiting)
		start := time.Now()
		require.NoError(t, l.Close())
		require.ErrorIs(t, <-errs, core.ErrClosed)
		require.Zero(t, time.Since(start))
		require.NoError(t, l.Close(), "twice is fine")
		_, err := l.Take(t.Context(), "k", 1)
		require.ErrorIs(t, err, core.ErrClosed)
		_, there = core.Lookup[*ratelimit.Limiter](reg, "x")
		require.False(t, there)
	})
}

// A store that the limiter was given stays open, and keeps what other limiters have used.
func TestCloseOverAStoreThatStaysOpen(t *testing.T) {
	t.Parallel()
	store := openMemory(t)
	for _, limit := range []ratelimit.Limit{ratelimit.PerMinute(5), ratelimit.TokenBucket(5, time.Minute, 5), ratelimit.SlidingLog(5, time.Minute)} {
		l := newLimiter(t, ratelimit.Config{Name: limit.String(), Store: store, Limit: limit})
		require.True(t, take(t, l, "k", 1).Allowed)
		require.NoError(t, l.Close())
		_, err := l.Take(t.Context(), "k", 1)
		require.ErrorIs(t, err, core.ErrClosed, "%v", limit)
		_, err = l.Wait(t.Context(), "k", 1)
		require.ErrorIs(t, err, core.ErrClosed, "%v", limit)
		again := newLimiter(t, ratelimit.Config{Name: limit.String(), Store: store, Limit: limit})
		require.EqualValues(t, 3, take(t, again, "k", 1).Remaining, "%v", limit)
	}
}

func TestPermitsAreConservedWhenCancelRacesGrant(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, ratelimit.Config{Limit: ratelimit.TokenBucket(10, time.Second, 1), MaxWait: -1})
		start := time.Now()
		var wg sync.WaitGroup
		var mu sync.Mutex
		granted := 0
		for i := range 100 {
			wg.Go(func() {
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				stop := time.AfterFunc(time.Duration(i+1)*100*time.Millisecond, cancel) // some at the very instant of the grant
				defer stop.Stop()
				if _, err := l.Wait(ctx, "k", 1); err == nil {
					mu.Lock()
					granted++
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		require.LessOrEqual(t, granted, 1+int(time.Since(start)/(100*time.Millisecond)))
		require.Equal(t, 100, int(l.Stats().Allowed+l.Stats().Canceled+l.Stats().Rejected))
		time.Sleep(time.Minute)
		require.EqualValues(t, 1, take(t, l, "k", 0).Remaining, "all came back")
	})
}

func TestCanceledWaitersGiveTheirPlaceBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, ratelimit.Config{Limit: ratelimit.TokenBucket(10, time.Second, 1)})
		require.True(t, take(t, l, "k", 1).Allowed)
		for range 10 {
			ctx, cancel := context.WithCancelCause(t.Context())
			go cancel(errors.New("left"))
			_, err := l.Wait(ctx, "k", 1)
			require.EqualError(t, err, "left")
		}
		start := time.Now()
		r, err := l.Wait(t.Context(), "k", 1)
		require.NoError(t, err)
		require.Equal(t, 100*time.Millisecond, r.Wait)
		require.Equal(t, 100*time.Millisecond, time.Since(start))
	})
}

func TestCancelDuringAWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, ratelimit.Config{Limit: ratelimit.TokenBucket(10, time.Second, 3)})
		require.True(t, take(t, l, "k", 2).Allowed)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(100*time.Millisecond, cancel)
		start := time.Now()
		_, err := l.Wait(ctx, "k", 3)
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, 100*time.Millisecond, time.Since(start))
		require.True(t, take(t, l, "k", 2).Allowed)
	})
}

func TestWaitIsInOrderAndSpaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, ratelimit.Config{Limit: ratelimit.TokenBucket(10, time.Second, 1), MaxWait: -1})
		start := time.Now()
		var mu sync.Mutex
		var order []int
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() {
				_, err := l.Wait(context.Background(), "k", 1)
				require.NoError(t, err)
				mu.Lock()
				defer mu.Unlock()
				order = append(order, i)
				require.Equal(t, time.Duration(i)*100*time.Millisecond, time.Since(start))
			})
			synctest.Wait()
		}
		wg.Wait()
		for i, n := range order {
			require.Equal(t, i, n)
		}
	})
}

func TestWaitWithADoneContextTakesNothing(t *testing.T) {
	t.Parallel()
	l := newLimiter(t, ratelimit.Config{Limit: ratelimit.PerHour(1)})
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("gone")
	cancel(gone)
	_, err := l.Wait(ctx, "k", 1)
	require.ErrorIs(t, err, gone)
	require.True(t, take(t, l, "k", 1).Allowed)
}

func TestRefundNamesTheTake(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, limit := range []ratelimit.Limit{ratelimit.PerMinute(10), ratelimit.TokenBucket(10, time.Minute, 10)} {
			l := newLimiter(t, ratelimit.Config{Limit: limit})
			first := take(t, l, "k", 6)
			refused := take(t, l, "k", 6)
			require.NoError(t, l.Refund(t.Context(), refused))
			r := mustPeek(t, l, "k")
			require.EqualValues(t, 4, r.Remaining, "nothing was taken, nothing comes back")
			require.NoError(t, l.Refund(t.Context(), first))
			r = mustPeek(t, l, "k")
			require.EqualValues(t, 10, r.Remaining)

			take(t, l, "k", 3)
			numbers := spec(limit)
			numbers.Permits, numbers.Burst = 20, 2*numbers.Burst
			tier := ratelimittest.Under(t, l, ratelimit.Limit(limits.Of(numbers)))
			other := take(t, tier, "k", 5)
			require.NoError(t, l.Refund(t.Context(), other))
			require.EqualValues(t, 17, mustPeek(t, tier, "k").Remaining, "only the three are taken: %v", limit)
		}
	})
}

func TestStoreFailureIsNotARefusal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &ratelimittest.Failing{Store: openMemory(t)}
		var failures int
		cfg := ratelimit.Config{Store: store, Limit: ratelimit.PerHour(1), Registry: eventtest.Registry(func(_ context.Context, e registry.Event) {
			if e.Warn {
				failures++
				require.ErrorIs(t, e.Err(), ratelimittest.ErrDown)
			}
		})}
		allow := newLimiter(t, cfg)
		cfg.Name, cfg.OnStoreError = "deny", ratelimit.Deny
		deny := newLimiter(t, cfg)
		store.Down()
		for range 3 {
			require.Equal(t, ratelimit.Result{Allowed: true}, take(t, allow, "k", 1))
		}
		_, err := deny.Take(t.Context(), "k", 1)
		require.ErrorIs(t, err, ratelimit.ErrStore)
		require.ErrorIs(t, err, ratelimittest.ErrDown)
		require.NotErrorIs(t, err, core.ErrRejected)
		require.EqualError(t, err, "ratelimit: deny: store failed: ratelimittest: store is down")
		require.Equal(t, 4, failures)
		require.EqualValues(t, 3, allow.Stats().StoreErrors)
		require.Zero(t, allow.Stats().Allowed, "it was not the limit that allowed")
		store.Up()
		require.True(t, take(t, allow, "k", 1).Allowed)
		require.False(t, take(t, allow, "k", 1).Allowed)

		store.Down()
		_, err = allow.Take(t.Context(), "k", -1)
		require.ErrorIs(t, err, core.ErrConfig)
		require.Equal(t, ratelimit.Result{Limit: 1, RetryAfter: limits.Never}, take(t, allow, "k", 2), "what never fits needs no store")
		for name, op := range map[string]func(n int64) (ratelimit.Result, error){
			"Take":       func(n int64) (ratelimit.Result, error) { return allow.Take(t.Context(), "k", n) },
			"TakeAtMost": func(n int64) (ratelimit.Result, error) { return allow.TakeAtMost(t.Context(), "k", n) },
			"Wait":       func(n int64) (ratelimit.Result, error) { return allow.Wait(t.Context(), "k", n) },
			"Reserve":    func(n int64) (ratelimit.Result, error) { return allow.Reserve(t.Context(), "k", n, 0) },
		} {
			for n := range int64(2) {
				r, err := op(n)
				require.NoError(t, err, "%s of %d", name, n)
				require.Equal(t, ratelimit.Result{Allowed: true}, r, "%s of %d", name, n)
			}
		}
		for name, op := range map[string]func() error{
			"Reset": func() error { return allow.Reset(t.Context(), "k") },
			"Drain": func() error { _, err := allow.Drain(t.Context(), "k"); return err },
			"Peek":  func() error { _, err := allow.Peek(t.Context(), "k"); return err },
			"Refund": func() error {
				return allow.Refund(t.Context(), ratelimit.Result{Permits: 1})
			},
		} {
			require.ErrorIs(t, op(), ratelimit.ErrStore, "%s did nothing", name)
		}
		store.Up()

		slow := newLimiter(t, ratelimit.Config{Store: &ratelimittest.Slow{Store: openMemory(t), Delay: time.Minute}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = slow.Take(ctx, "k", 1)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Zero(t, slow.Stats().StoreErrors, "the caller gave up: the store did not fail")
	})
}

// A wait that is canceled gives its place back to a store that is slow, and does
// not hang on one that does not answer.
func TestCanceledWaitAndARemoteStore(t *testing.T) {
	t.Parallel()
	for delay, back := range map[time.Duration]bool{time.Millisecond: true, time.Hour: false} {
		synctest.Test(t, func(t *testing.T) {
			slow := &ratelimittest.Slow{Store: openMemory(t), Delay: time.Millisecond}
			l := newLimiter(t, ratelimit.Config{Store: slow, Limit: ratelimit.TokenBucket(1, time.Minute, 1), MaxWait: -1})
			require.True(t, take(t, l, "k", 1).Allowed)
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, func() { slow.Set(delay); cancel() })
			start := time.Now()
			r, err := l.Wait(ctx, "k", 1)
			require.ErrorIs(t, err, context.Canceled)
			require.Zero(t, r, "an error comes with nothing that could be refunded again")
			require.LessOrEqual(t, time.Since(start), 2*time.Second)
			slow.Set(0)
			wait := take(t, l, "k", 1).RetryAfter
			require.Equal(t, back, wait < time.Minute, "%v", wait)
		})
	}
}

func TestEventsOfDecisions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var told []string
		l := newLimiter(t, ratelimit.Config{Limit: ratelimit.PerMinute(1), MaxWait: -1, Registry: eventtest.Registry(func(_ context.Context, e registry.Event) {
			told = append(told, fmt.Sprint(e.Text, " ", e.Key, e.Attrs))
		})})
		take(t, l, "a", 1)
		take(t, l, "a", 1)
		take(t, l, "a", 0) // only looks
		_, err := l.Wait(t.Context(), "a", 1)
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		go stop()
		_, err = l.Wait(ctx, "a", 1)
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, []string{
			"permits granted a[remaining=0 waited=0s cost=1]", "permits refused a[limit=1 remaining=0 retry_after=1m0s cost=1]",
			"waiting for permits a[cost=1]", "permits granted a[remaining=0 waited=1m0s cost=1]",
			"waiting for permits a[cost=1]", "wait for permits canceled a[waited=0s err=context canceled cost=1]",
		}, told)
		s := l.Stats()
		require.Equal(t, ratelimit.Stats{Allowed: 2, Rejected: 1, Canceled: 1, Keys: 1}, s)
	})
}

func TestLimiterIsAMechanism(t *testing.T) {
	t.Parallel()
	l := newLimiter(t, ratelimit.Config{Limit: ratelimit.PerHour(1)})
	p, err := core.NewPipeline(l)
	require.NoError(t, err)
	op := func(context.Context) (int, error) { return 42, nil }
	v, err := core.Do(t.Context(), p, op)
	require.NoError(t, err)
	require.Equal(t, 42, v)
	_, err = core.Do(t.Context(), p, op)
	require.ErrorIs(t, err, ratelimit.ErrLimited)
	_, err = ratelimit.Do(t.Context(), l, "", op)
	require.ErrorIs(t, err, ratelimit.ErrLimited)
}

func TestValidateReportsEveryField(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cfg  ratelimit.Config
		want []string
	}{
		"limit": {ratelimit.Config{Limit: ratelimit.PerMinute(0)}, []string{"ratelimit.Config.Limit = 0/1m: must have 1 to 274877906944 permits"}},
		"named": {
			ratelimit.Config{Limits: map[string]ratelimit.Limit{"": {}, "a b": {}, strings.Repeat("a", 65): {}, "ok-._9": ratelimit.PerHour(-1)}},
			[]string{`ratelimit.Config.Limits = "": must be named`, `= "a b": must be named`, `aa": must be named`, `ratelimit.Config.Limits["ok-._9"] = -1/1h: must have`},
		},
		"two": {
			ratelimit.Config{Limit: ratelimit.FixedWindow(-1, -1), MaxKeys: -2, OnStoreError: "no"},
			[]string{"ratelimit.Config.Limit = -1/-1ns", "ratelimit.Config.MaxKeys = -2: must be 0 to 1073741824", "ratelimit.Config.OnStoreError = no: must be allow, deny or local"},
		},
		"with store": {
			ratelimit.Config{Store: &ratelimittest.Slow{}, MaxKeys: 5},
			[]string{`ratelimit.Config.Name = "": must be given with a Store`, "ratelimit.Config.MaxKeys = 5: must be 0 with a Store of your own"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := ratelimit.New(c.cfg)
			require.ErrorIs(t, err, core.ErrConfig)
			for _, want := range c.want {
				require.ErrorContains(t, err, want)
			}
		})
	}
}

// A change grants nothing, is felt at once, and what is quoted after it is right.
func TestANewLimitHoldsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, ratelimit.Config{Limit: ratelimit.PerMinute(10)})
		require.True(t, take(t, l, "k", 10).Allowed)
		time.Sleep(20 * time.Second)
		ratelimittest.SetLimit(t, l, ratelimit.PerMinute(30))
		require.Equal(t, ratelimit.PerMinute(30), l.Limit())
		require.EqualValues(t, 0, take(t, l, "k", 20).Remaining, "never refills")
		require.Equal(t, 40*time.Second, take(t, l, "k", 1).RetryAfter, "the window does not move")
		require.EqualValues(t, 29, take(t, l, "new", 1).Remaining)
		time.Sleep(40*time.Second - 1)
		require.False(t, take(t, l, "k", 1).Allowed)
		time.Sleep(time.Nanosecond)
		require.True(t, take(t, l, "k", 30).Allowed)
		ratelimittest.SetLimit(t, l, ratelimit.PerMinute(5))
		require.Equal(t, time.Minute, take(t, l, "k", 1).RetryAfter)
		time.Sleep(time.Minute)
		require.True(t, take(t, l, "k", 5).Allowed)
		require.False(t, take(t, l, "k", 1).Allowed)
	})
}
