package bulkhead_test

import (
	"context"
	"errors"
	"math/rand/v2"
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
	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/core/bulkhead"
	"github.com/gresil/gresil/core/timeout"
)

func newBulkhead(t *testing.T, cfg bulkhead.Config) *bulkhead.Bulkhead {
	t.Helper()
	b, err := bulkhead.New(cfg)
	require.NoError(t, err)
	return b
}

func acquire(t *testing.T, b *bulkhead.Bulkhead, key string, n int) *bulkhead.Permit {
	t.Helper()
	p, err := b.Acquire(t.Context(), key, n)
	require.NoError(t, err)
	return &p
}

func TestZeroConfig(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBulkhead(t, bulkhead.Config{})
		for range 25 {
			acquire(t, b, "k", 1)
		}
		begin := time.Now()
		_, err := b.Acquire(t.Context(), "k", 1)
		require.Equal(t, 10*time.Second, time.Since(begin))
		require.EqualError(t, err, "bulkhead: default: full")
		require.ErrorIs(t, err, bulkhead.ErrFull)
		require.ErrorIs(t, err, core.ErrRejected)
		full, _ := errors.AsType[*bulkhead.FullError](err)
		require.Equal(t, []string{"default", "k"}, []string{full.Name, full.Key})
		_, ok := core.RetryAfter(err)
		require.False(t, ok, "no call was admitted from the queue yet")
		require.Equal(t, bulkhead.Stats{Admitted: 25, Rejected: 1, Keys: 1, InFlight: 25, Limit: 25}, b.Stats())
		for range 1000 {
			go func() { _, _ = b.Acquire(t.Context(), "k", 1) }()
		}
		synctest.Wait()
		require.Equal(t, 1000, b.Stats().Waiting)
		begin = time.Now()
		_, err = b.Acquire(t.Context(), "k", 1)
		require.ErrorIs(t, err, bulkhead.ErrFull)
		require.Zero(t, time.Since(begin), "the queue is full")
		require.NoError(t, b.Close())
	})
}

func TestDo(t *testing.T) {
	t.Parallel()
	b := newBulkhead(t, bulkhead.Config{Limit: 1, MaxQueue: -1, Backoff: 0.5})
	require.PanicsWithValue(t, "operation", func() {
		_, _ = bulkhead.Do(t.Context(), b, "k", func(context.Context) (int, error) { panic("operation") })
	})
	var wg sync.WaitGroup
	wg.Go(func() {
		_, _ = bulkhead.Do(t.Context(), b, "k", func(context.Context) (int, error) { runtime.Goexit(); return 0, nil })
	})
	wg.Wait()
	n, err := bulkhead.Do(t.Context(), b, "k", func(ctx context.Context) (int, error) {
		_, err := bulkhead.Do(ctx, b, "k", func(context.Context) (int, error) { return 1, nil })
		require.ErrorIs(t, err, bulkhead.ErrFull)
		return bulkhead.Do(ctx, b, "other", func(context.Context) (int, error) { return 7, nil })
	})
	require.NoError(t, err)
	require.Equal(t, 7, n)
	p := core.Must(core.NewPipeline(b))
	n, err = core.Do(t.Context(), p, func(ctx context.Context) (int, error) {
		_, err := b.Acquire(ctx, "", 1)
		require.ErrorIs(t, err, bulkhead.ErrFull, "the key of a pipeline is empty")
		return 8, nil
	})
	require.NoError(t, err)
	require.Equal(t, 8, n)
	require.Zero(t, b.Stats().InFlight)
}

func TestDoClassifies(t *testing.T) {
	t.Parallel()
	throttled, other := errors.New("throttled"), errors.New("other")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	late, stop := context.WithTimeout(t.Context(), 0)
	defer stop()
	<-late.Done()
	only := func(_ context.Context, result any, err error) core.Outcome {
		if result != 3 {
			t.Errorf("result %v", result)
		}
		if err == throttled { //nolint:errorlint // it is the very one
			return core.Failure
		}
		return core.Success
	}
	ignore := func(context.Context, any, error) core.Outcome { return core.Ignored }
	for _, c := range []struct {
		classify func(context.Context, any, error) core.Outcome
		ctx      context.Context
		err      error
		limit    int
	}{
		{nil, t.Context(), nil, 25},
		{nil, t.Context(), other, 12},
		{nil, t.Context(), core.ErrClosed, 25},
		{nil, ended, other, 25},
		{nil, late, other, 12},
		{only, t.Context(), other, 25},
		{only, t.Context(), throttled, 12},
	} {
		b := newBulkhead(t, bulkhead.Config{Backoff: 0.5, Classify: c.classify})
		operation := func(context.Context) (int, error) { return 3, c.err }
		_, err := bulkhead.Do(b.Override(c.ctx, func(cfg *bulkhead.Config) { cfg.Classify = ignore }), b, "", operation)
		require.Equal(t, c.err, err)
		require.Equal(t, 25, b.Stats().Limit)
		_, err = bulkhead.Do(c.ctx, b, "", operation)
		require.Equal(t, c.err, err)
		require.Equal(t, c.limit, b.Stats().Limit, "%v", c.err)
	}
}

// A deadline that passes during the operation is a failure, also if a part of the time was spent in the queue.
func TestDoPastDeadline(t *testing.T) {
	t.Parallel()
	for _, waits := range []time.Duration{1, time.Second / 2, time.Second - 1} {
		for _, classify := range []func(context.Context, any, error) core.Outcome{nil, breaker.Classify} {
			synctest.Test(t, func(t *testing.T) {
				b := newBulkhead(t, bulkhead.Config{Limit: 4, Backoff: 0.5, Classify: classify})
				held := acquire(t, b, "", 4)
				time.AfterFunc(waits, func() { held.Done(core.Ignored) })
				ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, &timeout.Error{Limit: time.Second})
				defer cancel()
				_, err := bulkhead.Do(ctx, b, "", func(ctx context.Context) (int, error) { <-ctx.Done(); return 0, ctx.Err() })
				require.Equal(t, context.DeadlineExceeded, err, "as it is")
				require.Equal(t, 2, b.Stats().Limit, waits)
			})
		}
	}
}

func TestOverride(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, other := newBulkhead(t, bulkhead.Config{Limit: 1, MaxQueue: -1}), newBulkhead(t, bulkhead.Config{Limit: 1, MaxQueue: -1})
		ctx := b.Override(t.Context(), func(c *bulkhead.Config) { c.MaxQueue, c.MaxWait = 1, time.Hour })
		ctx = b.Override(ctx, func(c *bulkhead.Config) { c.MaxWait, c.Limit, c.NewestFirst, c.Backoff = time.Minute, 9, true, 0.5 })
		for _, key := range []string{"", "k"} {
			held, busy := acquire(t, b, key, 1), acquire(t, other, key, 1)
			begin := time.Now()
			_, err := b.Acquire(ctx, key, 1)
			require.ErrorIs(t, err, bulkhead.ErrFull)
			require.Equal(t, time.Minute, time.Since(begin), "the innermost is applied last")
			_, err = b.Acquire(ctx, key, 2)
			require.ErrorContains(t, err, "above the limit of 1", "the other fields stay")
			_, err = b.Acquire(t.Context(), key, 1)
			require.ErrorIs(t, err, bulkhead.ErrFull)
			_, err = other.Acquire(ctx, key, 1)
			require.ErrorIs(t, err, bulkhead.ErrFull)
			require.Equal(t, time.Minute, time.Since(begin), "no other context and no other bulkhead")
			waits := enterAs(ctx, t, b, key, 1)
			_, err = b.Acquire(ctx, key, 1)
			require.ErrorIs(t, err, bulkhead.ErrFull, "not the newest first")
			held.Done(core.Failure)
			busy.Done(core.Success)
			synctest.Wait()
			require.NoError(t, waits.err)
			waits.done()
		}
		require.Equal(t, 2, b.Stats().Limit)
	})
}

func TestSetConfig(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBulkhead(t, bulkhead.Config{Limit: 3, MaxQueue: -1})
		for _, key := range []string{"", "k"} {
			require.NoError(t, b.SetConfig(bulkhead.Config{Limit: 3, MaxWait: -1}))
			p := acquire(t, b, key, 3)
			heavy, light := enter(t, b, key, 3), enter(t, b, key, 1)
			require.NoError(t, b.SetConfig(bulkhead.Config{Limit: 2, MaxWait: -1}))
			synctest.Wait()
			require.Equal(t, bulkhead.Stats{InFlight: 3, Limit: 2, Waiting: 2}, b.KeyState(key), "calls in flight and waiters stay")
			p.Done(core.Success)
			synctest.Wait()
			require.True(t, heavy.over.Load(), "above the limit by now, it runs alone")
			require.False(t, light.over.Load())
			require.NoError(t, b.SetConfig(bulkhead.Config{Limit: 4, MaxWait: -1}))
			synctest.Wait()
			require.True(t, light.over.Load())
			require.NoError(t, light.err)
			heavy.done()
			require.NoError(t, b.SetConfig(bulkhead.Config{Limit: 1, MaxQueue: -1}))
			_, err := b.Acquire(t.Context(), key, 1)
			require.ErrorIs(t, err, bulkhead.ErrFull, "lowered to the calls in flight, and no queue")
			light.done()
			acquire(t, b, key, 1).Done(core.Success)
		}
		acquire(t, b, "new", 1)
		_, err := b.Acquire(t.Context(), "new", 1)
		require.ErrorIs(t, err, bulkhead.ErrFull)
		require.ErrorIs(t, b.SetConfig(bulkhead.Config{Limit: -1}), core.ErrConfig)
		require.Equal(t, 1, b.Config().Limit)
	})
}

func TestClose(t *testing.T) {
	t.Parallel()
	for _, queue := range []int{0, -1} {
		synctest.Test(t, func(t *testing.T) {
			b := newBulkhead(t, bulkhead.Config{Limit: 2, MaxQueue: queue})
			var waiters []*caller
			for _, key := range []string{"", "k"} {
				p := acquire(t, b, key, 1)
				if queue == 0 { // the light one must not be admitted when the heavy one leaves
					waiters = append(waiters, enter(t, b, key, 2), enter(t, b, key, 1))
				} else {
					acquire(t, b, key, 1)
				}
				defer p.Done(core.Success)
			}
			require.NoError(t, b.Close())
			require.NoError(t, b.Close())
			synctest.Wait()
			for _, c := range waiters {
				require.Equal(t, core.ErrClosed, c.err)
			}
			for _, key := range []string{"", "k", "new"} {
				_, err := b.Acquire(t.Context(), key, 1)
				require.Equal(t, core.ErrClosed, err)
			}
			require.NoError(t, b.SetConfig(bulkhead.Config{Limit: 9}))
			_, err := b.Acquire(t.Context(), "", 1)
			require.Equal(t, core.ErrClosed, err)
		})
	}
}

func TestKeysApart(t *testing.T) {
	t.Parallel()
	b := newBulkhead(t, bulkhead.Config{Limit: 1, MaxQueue: -1})
	for _, key := range []string{"", "a:b", "a", "a:", strings.Repeat("x", 1000), "\x00", "日本", "\xff"} {
		acquire(t, b, key, 1)
		_, err := b.Acquire(t.Context(), key, 1)
		require.ErrorIs(t, err, bulkhead.ErrFull)
		full, _ := errors.AsType[*bulkhead.FullError](err)
		require.Equal(t, key, full.Key)
		require.EqualError(t, err, "bulkhead: default: full", "no key in the text")
	}
	require.Equal(t, bulkhead.Stats{Admitted: 8, Rejected: 8, Keys: 7, InFlight: 8, Limit: 8}, b.Stats())
}

func TestMaxKeys(t *testing.T) {
	t.Parallel()
	b := newBulkhead(t, bulkhead.Config{Name: "b", Limit: 1, MaxKeys: 3})
	p := acquire(t, b, "a", 1)
	for i := range 1000 { // idle keys make room
		acquire(t, b, strconv.Itoa(i), 1).Done(core.Success)
		require.LessOrEqual(t, b.Stats().Keys, 3)
	}
	require.EqualValues(t, 1001, b.Stats().Admitted, "those of forgotten keys too")
	acquire(t, b, "b", 1)
	acquire(t, b, "c", 1)
	_, err := b.Acquire(t.Context(), "d", 1)
	require.EqualError(t, err, "bulkhead: b: full: every key is in use")
	require.ErrorIs(t, err, bulkhead.ErrFull)
	acquire(t, b, "", 1)
	p.Done(core.Success)
	acquire(t, b, "d", 1).Done(core.Success)
	require.Equal(t, 3, b.Stats().Keys)
	require.NoError(t, b.SetConfig(bulkhead.Config{Limit: 2, MaxKeys: 2}))
	acquire(t, b, "b", 1)
	_, err = b.Acquire(t.Context(), "e", 1)
	require.ErrorIs(t, err, bulkhead.ErrFull)
	require.Equal(t, 2, b.Stats().Keys, "an idle key above a lowered MaxKeys leaves")
}

// At no moment do calls hold more permits than the limit: with several permits, waits, abandoned waits, and keys that are forgotten
// all the time.
func TestConcurrentCalls(t *testing.T) {
	t.Parallel()
	const limit, goroutines, calls = 5, 8, 1000
	for name, cfg := range map[string]bulkhead.Config{
		"no queue":     {MaxQueue: -1},
		"queue":        {MaxWait: -1},
		"newest first": {NewestFirst: true, MaxQueue: 2},
		"few keys":     {MaxKeys: 1, MaxQueue: 3},
		"adaptive":     {Backoff: 0.5, MaxQueue: 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg.Limit = limit
			b := newBulkhead(t, cfg)
			var held [3]atomic.Int64
			var admitted atomic.Uint64
			var wg sync.WaitGroup
			for g := range goroutines {
				wg.Go(func() {
					r := rand.New(rand.NewPCG(uint64(g), 3))
					for range calls {
						k, n := r.IntN(3), 1+r.IntN(limit)
						key := []string{"", "1", "2"}[k]
						ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+r.IntN(100))*time.Microsecond)
						p, err := b.Acquire(ctx, key, n)
						if err == nil {
							admitted.Add(1)
							if all := held[k].Add(int64(n)); all > limit {
								t.Errorf("%d permits are held", all)
							}
							held[k].Add(-int64(n))
							p.Done(core.Outcome(r.IntN(3)))
						}
						cancel()
						if r.IntN(100) == 0 {
							b.Stats()
						}
					}
				})
			}
			wg.Wait()
			s := b.Stats()
			require.Zero(t, s.InFlight)
			require.Zero(t, s.Waiting)
			require.Equal(t, admitted.Load(), s.Admitted)
			require.EqualValues(t, goroutines*calls, s.Admitted+s.Rejected)
			acquire(t, b, "", limit).Done(core.Ignored)
		})
	}
}

// The limit changes up and down while calls run: in the end all permits are there.
func TestConcurrentSetConfig(t *testing.T) {
	t.Parallel()
	b := newBulkhead(t, bulkhead.Config{Limit: 4, MaxWait: -1})
	var calls, changes sync.WaitGroup
	var stop atomic.Bool
	for offset := range 2 {
		changes.Go(func() {
			for i := offset; !stop.Load(); i++ {
				cfg := bulkhead.Config{Limit: 1 + i%7, MaxWait: -1, Backoff: float64(i%3) / 4, NewestFirst: i%5 == 0}
				if err := b.SetConfig(cfg); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for g := range 8 {
		calls.Go(func() {
			for i := range 1000 {
				p, err := b.Acquire(t.Context(), "", 1)
				if err != nil {
					t.Error(err)
					return
				}
				p.Done(core.Outcome((g + i) % 3))
			}
		})
	}
	calls.Wait()
	stop.Store(true)
	changes.Wait()
	require.NoError(t, b.SetConfig(bulkhead.Config{Limit: 9}))
	require.Equal(t, bulkhead.Stats{Limit: 9}, b.KeyState(""))
	acquire(t, b, "", 9)
}

//nolint:paralleltest // counts allocations
func TestAllocations(t *testing.T) {
	ctx := t.Context()
	for _, key := range []string{"", "k"} {
		for _, queue := range []int{0, -1} {
			b := newBulkhead(t, bulkhead.Config{Limit: 2, MaxQueue: queue})
			require.Zero(t, testing.AllocsPerRun(1000, func() {
				p, _ := b.Acquire(ctx, key, 2)
				p.Done(core.Success)
			}), "free")
		}
		b := newBulkhead(t, bulkhead.Config{Limit: 2, MaxQueue: -1})
		acquire(t, b, key, 2)
		require.Zero(t, testing.AllocsPerRun(1000, func() { _, _ = b.Acquire(ctx, key, 1) }), "full")
	}
}

func TestSecondDone(t *testing.T) {
	t.Parallel()
	for _, backoff := range []float64{0, 0.5} {
		b := newBulkhead(t, bulkhead.Config{Limit: 2, MaxQueue: -1, Backoff: backoff})
		p, q := acquire(t, b, "", 1), acquire(t, b, "", 1)
		p.Done(core.Success)
		p.Done(core.Success)
		require.Equal(t, 1, b.Stats().InFlight)
		q.Done(core.Outcome(7)) // an unknown outcome is ignored
		(&bulkhead.Permit{}).Done(core.Failure)
		require.Equal(t, bulkhead.Stats{Admitted: 2, Limit: 2}, b.Stats())
		acquire(t, b, "", 2)
	}
}
