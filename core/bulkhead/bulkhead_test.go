package bulkhead_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/bulkhead"
	"github.com/gresil/gresil/internal/eventtest"
	"github.com/gresil/gresil/internal/registry"
)

func newBulkhead(t *testing.T, cfg bulkhead.Config) *bulkhead.Bulkhead {
	t.Helper()
	b, err := bulkhead.New(cfg)
	require.NoError(t, err)
	return b
}

func acquire(t *testing.T, b *bulkhead.Bulkhead, key string, weight int) *bulkhead.Permit {
	t.Helper()
	p, err := b.AcquireN(t.Context(), key, weight)
	require.NoError(t, err)
	return &p
}

// stateOf returns the state of a key, without the number of its calls.
func stateOf(t *testing.T, b *bulkhead.Bulkhead, key string) bulkhead.Stats {
	t.Helper()
	s, ok := b.Key(key)
	require.True(t, ok)
	s.Admitted = 0
	return s
}

// A caller waits for a permit in a bubble.
type caller struct {
	permit bulkhead.Permit
	err    error
	over   atomic.Bool
	cancel context.CancelCauseFunc
	after  time.Duration
}

func enter(t *testing.T, b *bulkhead.Bulkhead, key string, weight int) *caller {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	c, begin := &caller{cancel: cancel}, time.Now()
	go func() {
		c.permit, c.err = b.AcquireN(ctx, key, weight)
		c.after = time.Since(begin)
		c.over.Store(true)
	}()
	synctest.Wait()
	return c
}

func (c *caller) done() {
	c.permit.Done(core.Ignored)
	synctest.Wait()
}

func TestTheZeroConfigIs25Calls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBulkhead(t, bulkhead.Config{})
		for range 25 {
			acquire(t, b, "k", 1)
		}
		begin := time.Now()
		_, err := b.Acquire(t.Context(), "k")
		require.ErrorIs(t, err, bulkhead.ErrFull)
		require.ErrorIs(t, err, core.ErrRejected)
		require.EqualError(t, err, "bulkhead: default: full")
		require.Equal(t, 10*time.Second, time.Since(begin))
		var full *bulkhead.FullError
		require.ErrorAs(t, err, &full)
		require.Equal(t, "k", full.Key)
		_, ok := core.RetryAfter(err)
		require.False(t, ok, "no call was admitted from the queue yet")
		require.Equal(t, bulkhead.Stats{Admitted: 25, Rejected: 1, Keys: 1, InFlight: 25, Limit: 25}, b.Stats())
	})
}

func TestValidateReportsEveryField(t *testing.T) {
	t.Parallel()
	_, err := bulkhead.New(bulkhead.Config{Limit: -1, Backoff: 1, MinLimit: -2, MaxKeys: -3})
	require.EqualError(t, err, "bulkhead.Config.Limit = -1: must be > 0 and <= 2147483647 (0 means 25)\n"+
		"bulkhead.Config.Backoff = 1: must be > 0 and < 1 (0 means that the limit is fixed)\n"+
		"bulkhead.Config.MinLimit = -2: must be > 0 and <= Limit (0 means 1)\n"+
		"bulkhead.Config.MaxKeys = -3: must be > 0 (0 means 65536)")
	for _, cfg := range []bulkhead.Config{{MinLimit: 26}, {Limit: 3, MinLimit: 4}, {Backoff: math.NaN()}, {Backoff: -0.1}, {Backoff: math.Inf(1)}} {
		require.ErrorIs(t, cfg.Validate(), core.ErrConfig, "%+v", cfg.Backoff)
	}
	require.NoError(t, bulkhead.Config{Limit: math.MaxInt32, MinLimit: math.MaxInt32, Backoff: 0.999}.Validate())
}

func TestASecondDoneReturnsNothing(t *testing.T) {
	t.Parallel()
	for _, backoff := range []float64{0, 0.5} {
		b := newBulkhead(t, bulkhead.Config{Limit: 2, MaxQueue: -1, Backoff: backoff})
		p, q := acquire(t, b, "", 1), acquire(t, b, "", 1)
		p.Done(core.Success)
		p.Done(core.Success)
		require.Equal(t, 1, b.Stats().InFlight)
		q.Done(core.Success)
		(&bulkhead.Permit{}).Done(core.Failure)
		require.Zero(t, b.Stats().InFlight)
		acquire(t, b, "", 2)
	}
}

func TestAPermitIsReturnedWhateverTheOperationDoes(t *testing.T) {
	t.Parallel()
	b := newBulkhead(t, bulkhead.Config{Limit: 1, MaxQueue: -1, Backoff: 0.5})
	require.PanicsWithValue(t, "operation", func() {
		_, _ = bulkhead.Do(t.Context(), b, func(context.Context) (int, error) { panic("operation") })
	})
	var wg sync.WaitGroup
	wg.Go(func() {
		_, _ = bulkhead.Do(t.Context(), b, func(context.Context) (int, error) { runtime.Goexit(); return 0, nil })
	})
	wg.Wait()
	n, err := bulkhead.Do(t.Context(), b, func(ctx context.Context) (int, error) {
		_, err := bulkhead.Do(ctx, b, func(context.Context) (int, error) { return 1, nil })
		require.ErrorIs(t, err, bulkhead.ErrFull)
		return 7, nil
	})
	require.NoError(t, err)
	require.Equal(t, 7, n)
	p, err := core.NewPipeline(b)
	require.NoError(t, err)
	n, err = core.Do(t.Context(), p, func(context.Context) (int, error) { return 8, nil })
	require.NoError(t, err)
	require.Equal(t, 8, n)
	require.Zero(t, b.Stats().InFlight)
}

func TestWaitersAreAdmittedInOrder(t *testing.T) {
	t.Parallel()
	for _, newest := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b := newBulkhead(t, bulkhead.Config{Limit: 1, NewestFirst: newest})
			p := acquire(t, b, "k", 1)
			var all []*caller
			for range 4 {
				all = append(all, enter(t, b, "k", 1))
			}
			if newest {
				all[0], all[1], all[2], all[3] = all[3], all[2], all[1], all[0]
			}
			time.Sleep(time.Second)
			p.Done(core.Success)
			for i, c := range all {
				synctest.Wait()
				require.True(t, c.over.Load())
				require.NoError(t, c.err)
				require.True(t, i == 3 || !all[i+1].over.Load())
				require.Equal(t, time.Second, c.after)
				c.done()
			}
			require.Equal(t, bulkhead.Stats{Admitted: 5, Waited: 4, Keys: 1, Limit: 1}, b.Stats())
		})
	}
}

// The newest first: holder(2), w1(2), w2(1). w2 is admitted first, then w1.
func TestTheNewestMayOvertakeAndTheOldestMayNotBeOvertaken(t *testing.T) {
	t.Parallel()
	for _, newest := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b := newBulkhead(t, bulkhead.Config{Limit: 3, NewestFirst: newest})
			p := acquire(t, b, "", 2)
			heavy := enter(t, b, "", 2)
			light := enter(t, b, "", 1) // one permit is free
			require.False(t, heavy.over.Load())
			require.Equal(t, newest, light.over.Load())
			p.Done(core.Success)
			synctest.Wait()
			require.True(t, heavy.over.Load())
			require.True(t, light.over.Load())
		})
	}
}

func TestAHeavyWaiterIsNotStarved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBulkhead(t, bulkhead.Config{Limit: 4, MaxWait: -1})
		stop := make(chan struct{})
		var wg sync.WaitGroup
		for i := range 8 { // never all at rest
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					p, err := b.Acquire(t.Context(), "")
					if err != nil {
						t.Error(err)
						return
					}
					time.Sleep(time.Duration(10+i) * time.Millisecond)
					p.Done(core.Success)
				}
			})
		}
		time.Sleep(time.Second)
		begin := time.Now()
		p := acquire(t, b, "", 4)
		require.Less(t, time.Since(begin), 100*time.Millisecond)
		p.Done(core.Success)
		close(stop)
		wg.Wait()
	})
}

func TestAWeightAboveTheLimitIsAnErrorAtOnce(t *testing.T) {
	t.Parallel()
	for _, queue := range []int{0, -1} {
		b := newBulkhead(t, bulkhead.Config{Limit: 3, MaxQueue: queue})
		for _, weight := range []int{4, math.MaxInt32, math.MaxInt} {
			_, err := b.AcquireN(t.Context(), "", weight)
			require.ErrorIs(t, err, core.ErrRejected)
			require.EqualError(t, err, "bulkhead: default: a weight of "+strconv.Itoa(weight)+" is above the limit of 3")
			_, ok := core.RetryAfter(err)
			require.False(t, ok, "waiting does not help")
		}
		for _, weight := range []int{0, -1, math.MinInt} {
			_, err := b.AcquireN(t.Context(), "", weight)
			require.ErrorIs(t, err, core.ErrConfig)
			require.NotErrorIs(t, err, core.ErrRejected)
		}
		p := acquire(t, b, "", 3)
		_, err := b.AcquireN(t.Context(), "", 4)
		require.ErrorContains(t, err, "a weight of 4", "also while no permit is free")
		p.Done(core.Ignored)
	}
}

func TestAWaitEndsAtItsTimeAndWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBulkhead(t, bulkhead.Config{Limit: 1, MaxWait: time.Minute})
		p := acquire(t, b, "k", 1)
		gone := errors.New("gone")
		first, second := enter(t, b, "k", 1), enter(t, b, "k", 1)
		time.Sleep(time.Second)
		first.cancel(gone)
		synctest.Wait()
		require.Equal(t, gone, first.err)
		require.Equal(t, time.Second, first.after)
		require.Equal(t, 1, b.Stats().Waiting)
		time.Sleep(time.Hour)
		synctest.Wait()
		require.ErrorIs(t, second.err, bulkhead.ErrFull)
		require.Equal(t, time.Minute, second.after)
		p.Done(core.Success)
		require.Equal(t, bulkhead.Stats{Admitted: 1, Rejected: 1, Canceled: 1, Keys: 1, Limit: 1}, b.Stats())

		done, cancel := context.WithCancelCause(t.Context())
		cancel(gone)
		q, err := b.Acquire(done, "k")
		require.NoError(t, err, "the permit is free")
		_, err = b.Acquire(done, "k")
		require.Equal(t, gone, err)
		q.Done(core.Success)
	})
}

// A waiter that leaves the head of the queue no longer blocks the others.
func TestAHeavyHeadThatLeavesLetsOthersIn(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(*caller){
		"canceled":  func(c *caller) { c.cancel(nil) },
		"timed out": func(*caller) { time.Sleep(time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBulkhead(t, bulkhead.Config{Limit: 3, MaxWait: time.Minute})
				acquire(t, b, "", 1)
				heavy := enter(t, b, "", 3)
				time.Sleep(time.Second)
				light := enter(t, b, "", 1)
				require.False(t, light.over.Load())
				leave(heavy)
				synctest.Wait()
				require.Error(t, heavy.err)
				require.True(t, light.over.Load())
				require.NoError(t, light.err)
			})
		})
	}
}

func TestANegativeMaxWaitIsBoundByTheContextAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBulkhead(t, bulkhead.Config{Limit: 1, MaxWait: -1})
		p := acquire(t, b, "", 1)
		c := enter(t, b, "", 1)
		time.Sleep(1000 * time.Hour)
		require.False(t, c.over.Load())
		p.Done(core.Success)
		synctest.Wait()
		require.NoError(t, c.err)
		require.True(t, c.over.Load())
	})
}

func TestTheQueueIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBulkhead(t, bulkhead.Config{Limit: 1, MaxQueue: 2})
		p := acquire(t, b, "", 1)
		first, second := enter(t, b, "", 1), enter(t, b, "", 1)
		require.ErrorIs(t, enter(t, b, "", 1).err, bulkhead.ErrFull)
		first.cancel(nil)
		synctest.Wait()
		third := enter(t, b, "", 1)
		require.False(t, third.over.Load(), "a place became free")
		p.Done(core.Success)
		synctest.Wait()
		require.True(t, second.over.Load())
		second.done()
		require.NoError(t, third.err)
	})
}

func TestTheNewestReplacesTheOldestInAFullQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBulkhead(t, bulkhead.Config{Limit: 1, MaxQueue: 2, NewestFirst: true})
		acquire(t, b, "", 1)
		first, second, third := enter(t, b, "", 1), enter(t, b, "", 1), enter(t, b, "", 1)
		require.ErrorIs(t, first.err, bulkhead.ErrFull)
		require.False(t, second.over.Load() || third.over.Load())
		require.Equal(t, 2, b.Stats().Waiting)
	})
}

func TestRetryAfterIsThePaceOfTheQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBulkhead(t, bulkhead.Config{Limit: 1, MaxQueue: 3, MaxWait: -1})
		p := acquire(t, b, "", 1)
		var all []*caller
		for range 3 {
			all = append(all, enter(t, b, "", 1))
		}
		time.Sleep(time.Second)
		p.Done(core.Success)
		synctest.Wait()
		all = append(all, enter(t, b, "", 1))
		time.Sleep(time.Second)
		all[0].done()
		enter(t, b, "", 1)
		after, ok := core.RetryAfter(enter(t, b, "", 1).err)
		require.True(t, ok)
		require.Equal(t, 3*time.Second, after, "three wait, one is admitted each second")
	})
}

func TestSetConfigAppliesAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBulkhead(t, bulkhead.Config{Limit: 3, MaxWait: -1})
		for _, key := range []string{"", "k"} {
			require.NoError(t, b.SetConfig(bulkhead.Config{Limit: 3, MaxWait: -1}))
			p := acquire(t, b, key, 3)
			heavy, light := enter(t, b, key, 3), enter(t, b, key, 1)
			require.NoError(t, b.SetConfig(bulkhead.Config{Limit: 2, MaxWait: -1}))
			synctest.Wait()
			require.ErrorContains(t, heavy.err, "a weight of 3 is above the limit of 2")
			require.False(t, light.over.Load())
			require.Equal(t, bulkhead.Stats{InFlight: 3, Limit: 2, Waiting: 1}, stateOf(t, b, key))
			require.NoError(t, b.SetConfig(bulkhead.Config{Limit: 4, MaxWait: -1}))
			synctest.Wait()
			require.True(t, light.over.Load())
			require.NoError(t, light.err)
			p.Done(core.Success)
			require.NoError(t, b.SetConfig(bulkhead.Config{Limit: 1, MaxQueue: -1}))
			_, err := b.Acquire(t.Context(), key)
			require.ErrorIs(t, err, bulkhead.ErrFull, "lowered to the calls in flight, and no queue")
			light.done()
			acquire(t, b, key, 1).Done(core.Success)
		}
		acquire(t, b, "new", 1)
		_, err := b.Acquire(t.Context(), "new")
		require.ErrorIs(t, err, bulkhead.ErrFull)
		require.ErrorIs(t, b.SetConfig(bulkhead.Config{Limit: -1}), core.ErrConfig)
		require.ErrorIs(t, b.SetConfig(bulkhead.Config{Name: "other"}), core.ErrConfig)
		require.Equal(t, 1, b.Config().Limit)
	})
}

func TestAClosedBulkheadAdmitsNone(t *testing.T) {
	t.Parallel()
	b := newBulkhead(t, bulkhead.Config{})
	acquire(t, b, "k", 1).Done(core.Success)
	require.NoError(t, b.Close())
	for _, key := range []string{"", "k", "new"} {
		_, err := b.Acquire(t.Context(), key)
		require.ErrorIs(t, err, core.ErrClosed)
	}
	require.Equal(t, uint64(3), b.Stats().Canceled)
}

// A permit that is granted to a waiter that leaves at that moment is not lost.
func TestPermitsAreConservedWhenCancelRacesGrant(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBulkhead(t, bulkhead.Config{Limit: 1})
		for range 100 {
			p := acquire(t, b, "", 1)
			c := enter(t, b, "", 1)
			c.cancel(nil)
			p.Done(core.Success)
			synctest.Wait()
			require.ErrorIs(t, c.err, context.Canceled)
			c.done()
			require.Zero(t, b.Stats().InFlight)
		}
		require.Equal(t, bulkhead.Stats{Admitted: 100, Canceled: 100, Limit: 1}, b.Stats())
	})
}

func TestCloseEndsWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := &core.Registry{}
		b := newBulkhead(t, bulkhead.Config{Registry: registry, Limit: 1})
		_, err := bulkhead.New(bulkhead.Config{Registry: registry})
		require.ErrorContains(t, err, "already registered")
		for _, key := range []string{"", "k"} {
			p := acquire(t, b, key, 1)
			defer p.Done(core.Success)
		}
		c, d := enter(t, b, "", 1), enter(t, b, "k", 1)
		require.NoError(t, b.Close())
		require.NoError(t, b.Close())
		synctest.Wait()
		require.ErrorIs(t, c.err, core.ErrClosed)
		require.ErrorIs(t, d.err, core.ErrClosed)
		require.ErrorIs(t, c.err, core.ErrRejected)
		for _, key := range []string{"", "k", "new"} {
			_, err := b.Acquire(t.Context(), key)
			require.ErrorIs(t, err, core.ErrClosed)
		}
		_, found := core.Lookup[*bulkhead.Bulkhead](registry, "default")
		require.False(t, found)
		require.NoError(t, b.SetConfig(bulkhead.Config{Limit: 9}))
		_, err = b.Acquire(t.Context(), "")
		require.ErrorIs(t, err, core.ErrClosed)
	})
}

func TestKeysAreApartAndForgottenWhenIdle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBulkhead(t, bulkhead.Config{Limit: 1, MaxQueue: -1})
		keys := []string{"a:b", "a", "a:", strings.Repeat("x", 1000), "\x00", "日本", "\xff"}
		var permits []*bulkhead.Permit
		for _, key := range keys {
			permits = append(permits, acquire(t, b, key, 1))
			_, err := b.Acquire(t.Context(), key)
			require.ErrorIs(t, err, bulkhead.ErrFull)
		}
		for i := range permits[1:] {
			permits[i+1].Done(core.Success)
		}
		b.Stats()
		time.Sleep(time.Minute - 1)
		require.Equal(t, len(keys), b.Stats().Keys)
		time.Sleep(time.Nanosecond)
		s := b.Stats()
		require.Equal(t, 1, s.Keys, "a call of the first one is in flight")
		require.Equal(t, uint64(len(keys)), s.Admitted, "those of forgotten keys too")
		for key, state := range b.All() {
			require.Equal(t, keys[0], key)
			require.Equal(t, bulkhead.Stats{Admitted: 1, InFlight: 1, Limit: 1}, state)
		}
		permits[0].Done(core.Success)
		for range 2 {
			b.Stats()
			time.Sleep(time.Minute)
		}
		require.Zero(t, b.Stats().Keys)
		for range 1000 { // other keys make idle ones leave, without Stats
			acquire(t, b, strconv.Itoa(int(time.Now().UnixNano())), 1).Done(core.Success)
			time.Sleep(10 * time.Second)
		}
		require.Less(t, b.Stats().Keys, 30)
	})
}

func TestKeysAreBounded(t *testing.T) {
	t.Parallel()
	b := newBulkhead(t, bulkhead.Config{Name: "b", Limit: 1, MaxKeys: 3})
	p := acquire(t, b, "a", 1)
	for i := range 1000 {
		acquire(t, b, strconv.Itoa(i), 1).Done(core.Success)
		require.LessOrEqual(t, b.Stats().Keys, 3)
	}
	acquire(t, b, "b", 1)
	acquire(t, b, "c", 1)
	_, err := b.Acquire(t.Context(), "d")
	require.EqualError(t, err, "bulkhead: b: full: every key is in use")
	require.ErrorIs(t, err, bulkhead.ErrFull)
	acquire(t, b, "", 1)
	p.Done(core.Success)
	acquire(t, b, "d", 1)
	_, ok := b.Key("a")
	require.False(t, ok)
}

func TestEvents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		type ctxKey struct{}
		var mu sync.Mutex // events of different calls can be told at one time
		var seen []string
		b := newBulkhead(t, bulkhead.Config{Limit: 2, MaxWait: time.Second, Backoff: 0.5, Registry: eventtest.Registry(func(ctx context.Context, e registry.Event) {
			mu.Lock()
			defer mu.Unlock()
			if of, ok := ctx.Value(ctxKey{}).(string); ok {
				seen = append(seen, fmt.Sprint(of, ": ", e.Text, " ", e.Key, e.Attrs))
			}
		})})
		call := func(ctx string, f func(ctx context.Context)) { f(context.WithValue(t.Context(), ctxKey{}, ctx)) }
		var first, p bulkhead.Permit
		call("one", func(ctx context.Context) { first, _ = b.AcquireN(ctx, "k", 2) })
		call("two", func(ctx context.Context) { _, err := b.Acquire(ctx, "k"); require.Error(t, err) })
		time.AfterFunc(time.Second/2, func() { first.Done(core.Failure) })
		call("three", func(ctx context.Context) { p, _ = b.Acquire(ctx, "k") })
		synctest.Wait()
		require.ElementsMatch(t, []string{
			"two: call rejected, since the bulkhead is full k[weight=1 waited=1s]",
			"three: call waited for its permits k[weight=1 waited=500ms]",
			"one: limit of calls in flight lowered k[old=2 limit=1]",
		}, seen)
		p.Done(core.Success)
		require.Equal(t, "three: limit of calls in flight raised k[old=1 limit=2]", seen[3])
		require.Equal(t, bulkhead.Stats{Admitted: 2, Waited: 1, Rejected: 1, Lowered: 1, Raised: 1, Keys: 1, Limit: 2}, b.Stats())

		require.NoError(t, b.SetConfig(bulkhead.Config{Limit: 1, MaxQueue: -1}))
		acquire(t, b, "", 1)
		call("four", func(ctx context.Context) { _, err := b.Acquire(ctx, ""); require.Error(t, err) })
		require.Equal(t, "four: call rejected, since the bulkhead is full [weight=1 waited=0s]", seen[4], "without a queue too")
	})
}

// An observer that ends its goroutine does not keep the permit.
func TestObserverThatEndsTheGoroutine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBulkhead(t, bulkhead.Config{Limit: 1, Registry: eventtest.Registry(func(context.Context, registry.Event) { runtime.Goexit() })})
		p := acquire(t, b, "", 1)
		c := enter(t, b, "", 1)
		p.Done(core.Success)
		synctest.Wait()
		require.False(t, c.over.Load())
		require.Zero(t, b.Stats().InFlight)
	})
}

//nolint:paralleltest // sets GOMAXPROCS
func TestTenThousandCallersOfOneProcessorFinish(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	b := newBulkhead(t, bulkhead.Config{Limit: 10, MaxQueue: 10_000, MaxWait: -1})
	var wg sync.WaitGroup
	var inFlight atomic.Int64
	for range 10_000 {
		wg.Go(func() {
			p, err := b.Acquire(t.Context(), "k")
			if err != nil {
				t.Error(err)
				return
			}
			n := inFlight.Add(1)
			if n > 10 {
				t.Errorf("%d calls are in flight", n)
			}
			runtime.Gosched()
			inFlight.Add(-1)
			p.Done(core.Success)
		})
	}
	wg.Wait()
	s := b.Stats()
	require.Equal(t, uint64(10_000), s.Admitted)
	require.Zero(t, s.InFlight+s.Waiting)
}

//nolint:paralleltest // counts allocations
func TestFreeAndFullDoNotAllocate(t *testing.T) {
	ctx := t.Context()
	for _, key := range []string{"", "k"} {
		for _, queue := range []int{0, -1} {
			b := newBulkhead(t, bulkhead.Config{Limit: 2, MaxQueue: queue})
			require.Zero(t, testing.AllocsPerRun(1000, func() {
				p, _ := b.AcquireN(ctx, key, 2)
				p.Done(core.Success)
			}), "free")
		}
		b := newBulkhead(t, bulkhead.Config{Limit: 2, MaxQueue: -1})
		acquire(t, b, key, 1)
		require.Zero(t, testing.AllocsPerRun(1000, func() { _, _ = b.AcquireN(ctx, key, 2) }), "full for a heavy call")
		acquire(t, b, key, 1)
		require.Zero(t, testing.AllocsPerRun(1000, func() { _, _ = b.Acquire(ctx, key) }), "full")
	}
}
