package bulkhead_test

import (
	"context"
	"errors"
	"math"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/core/bulkhead"
	"github.com/gresil/gresil/core/retry"
)

// A caller waits for permits in a bubble.
type caller struct {
	permit bulkhead.Permit
	err    error
	over   atomic.Bool
	cancel context.CancelCauseFunc
	after  time.Duration
}

func enter(t *testing.T, b *bulkhead.Bulkhead, key string, n int) *caller {
	t.Helper()
	return enterAs(t.Context(), t, b, key, n)
}

func enterAs(ctx context.Context, t *testing.T, b *bulkhead.Bulkhead, key string, n int) *caller {
	t.Helper()
	ctx, cancel := context.WithCancelCause(ctx)
	c, begin := &caller{cancel: cancel}, time.Now()
	go func() {
		c.permit, c.err = b.Acquire(ctx, key, n)
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

func TestWrongNumberOfPermits(t *testing.T) {
	t.Parallel()
	for _, queue := range []int{0, -1} {
		b := newBulkhead(t, bulkhead.Config{Limit: 3, MaxQueue: queue})
		for range 2 {
			for _, n := range []int{4, math.MaxInt32, math.MaxInt} {
				_, err := b.Acquire(t.Context(), "", n)
				require.ErrorIs(t, err, core.ErrRejected)
				require.EqualError(t, err, "bulkhead: default: "+strconv.Itoa(n)+" permits are above the limit of 3")
				_, ok := core.RetryAfter(err)
				require.False(t, ok, "waiting does not help")
			}
			for _, n := range []int{0, -1, math.MinInt} {
				_, err := b.Acquire(t.Context(), "", n)
				require.ErrorIs(t, err, core.ErrConfig)
				require.NotErrorIs(t, err, core.ErrRejected)
			}
			acquire(t, b, "", 1) // the same while a permit is taken
		}
	}
}

func TestWaitEnds(t *testing.T) {
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
		require.Equal(t, bulkhead.Stats{Admitted: 1, Rejected: 2, Keys: 1, Limit: 1}, b.Stats())

		done, cancel := context.WithCancelCause(t.Context())
		cancel(gone)
		q, err := b.Acquire(done, "k", 1)
		require.NoError(t, err, "the permit is free")
		_, err = b.Acquire(done, "k", 1)
		require.Equal(t, gone, err)
		require.NoError(t, b.SetConfig(bulkhead.Config{Limit: 1, MaxQueue: 1, NewestFirst: true}))
		oldest := enter(t, b, "k", 1)
		_, err = b.Acquire(done, "k", 1)
		require.Equal(t, gone, err)
		synctest.Wait()
		require.False(t, oldest.over.Load(), "a call that has ended takes no place")
		q.Done(core.Success)
		synctest.Wait()
		oldest.done()

		require.NoError(t, b.SetConfig(bulkhead.Config{Limit: 1, MaxWait: -1}))
		r := acquire(t, b, "k", 1)
		third := enter(t, b, "k", 1)
		time.Sleep(1000 * time.Hour)
		require.False(t, third.over.Load(), "without a limit")
		r.Done(core.Success)
		synctest.Wait()
		require.NoError(t, third.err)
		require.True(t, third.over.Load())
	})
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBulkhead(t, bulkhead.Config{Limit: 1, MaxQueue: 3, MaxWait: -1})
		p := acquire(t, b, "", 1)
		first := enter(t, b, "", 1)
		enter(t, b, "", 1)
		enter(t, b, "", 1)
		time.Sleep(time.Second)
		p.Done(core.Success)
		synctest.Wait()
		enter(t, b, "", 1)
		time.Sleep(time.Second)
		first.done()
		enter(t, b, "", 1)
		after, ok := core.RetryAfter(enter(t, b, "", 1).err)
		require.True(t, ok)
		require.Equal(t, 2*time.Second, after, "as long as the last one that was admitted")
	})
}

// Waiting helps while a bulkhead is full, although it is not known for how long.
func TestFullIsRetried(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		again := core.Must(retry.New(retry.Config{RetryRejected: true, Backoff: backoff.Constant{Delay: 10 * time.Millisecond}, MaxAttempts: 5}))
		for name, row := range map[string]struct {
			cfg   bulkhead.Config
			n     int
			calls uint64
			err   error
		}{
			"full":      {bulkhead.Config{Limit: 1, MaxQueue: -1}, 1, 2, nil},
			"many keys": {bulkhead.Config{Limit: 1, MaxKeys: 1}, 1, 2, nil},
			"too many":  {bulkhead.Config{Limit: 1}, 2, 0, bulkhead.ErrFull},
		} {
			b := newBulkhead(t, row.cfg)
			p := acquire(t, b, "first", 1)
			time.AfterFunc(15*time.Millisecond, func() { p.Done(core.Success) })
			before := again.Stats().Retries
			key := map[bool]string{true: "second", false: "first"}[row.cfg.MaxKeys > 0]
			_, err := retry.Do(t.Context(), again, func(ctx context.Context) (int, error) {
				p, err := b.Acquire(ctx, key, row.n)
				if err == nil {
					p.Done(core.Success)
				}
				return 0, err
			})
			require.ErrorIs(t, err, row.err, name)
			require.Equal(t, row.calls, again.Stats().Retries-before, name)
			time.Sleep(time.Second)
		}
	})
}

func TestRetryAfterOfWaiterThatLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBulkhead(t, bulkhead.Config{Limit: 1, MaxQueue: 1, MaxWait: -1})
		p := acquire(t, b, "", 1)
		enter(t, b, "", 1)
		time.Sleep(time.Second)
		p.Done(core.Success)
		synctest.Wait()
		left := enter(t, b, "", 1)
		time.Sleep(5 * time.Second)
		left.cancel(nil)
		synctest.Wait()
		enter(t, b, "", 1)
		after, ok := core.RetryAfter(enter(t, b, "", 1).err)
		require.True(t, ok)
		require.Equal(t, time.Second, after, "it was not admitted")
	})
}

func TestLimitRisesWithHalfInUse(t *testing.T) {
	t.Parallel()
	b := newBulkhead(t, bulkhead.Config{Limit: 4, Backoff: 0.5})
	acquire(t, b, "k", 1).Done(core.Failure)
	require.Equal(t, 2, b.KeyState("k").Limit)
	acquire(t, b, "k", 1).Done(core.Success)
	acquire(t, b, "k", 1).Done(core.Success)
	require.Equal(t, 3, b.KeyState("k").Limit)
}

func TestSetConfigAdaptive(t *testing.T) {
	t.Parallel()
	cfg := bulkhead.Config{Limit: 16, Backoff: 0.5, MaxQueue: -1}
	b := newBulkhead(t, cfg)
	set := func(f func(*bulkhead.Config)) int {
		f(&cfg)
		require.NoError(t, b.SetConfig(cfg))
		return b.KeyState("k").Limit
	}
	acquire(t, b, "k", 1).Done(core.Failure)
	acquire(t, b, "k", 1).Done(core.Failure)
	require.Equal(t, 4, b.KeyState("k").Limit)
	require.Equal(t, 4, set(func(c *bulkhead.Config) { c.Limit = 20 }), "a limit that was lowered stays")
	require.Equal(t, 6, set(func(c *bulkhead.Config) { c.MinLimit = 6 }))
	require.Equal(t, 3, set(func(c *bulkhead.Config) { c.Limit, c.MinLimit = 3, 0 }))
	require.Equal(t, 10, set(func(c *bulkhead.Config) { c.Limit = 10 }), "it was at its highest")
	before := acquire(t, b, "k", 1)
	acquire(t, b, "k", 1).Done(core.Failure)
	require.Equal(t, 10, set(func(c *bulkhead.Config) { c.Backoff = 0 }), "fixed")
	acquire(t, b, "k", 1).Done(core.Failure)
	require.Equal(t, 10, set(func(c *bulkhead.Config) { c.Backoff = 0.5 }))
	before.Done(core.Failure)
	require.Equal(t, 10, b.KeyState("k").Limit, "a call of before the last decrease")
	acquire(t, b, "k", 1).Done(core.Failure)
	require.Equal(t, bulkhead.Stats{Limit: 5}, b.KeyState("k"))
}
