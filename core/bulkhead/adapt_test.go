package bulkhead_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/core/bulkhead"
	"github.com/gresil/gresil/core/timeout"
	"github.com/gresil/gresil/internal/instance"
)

func limitOf(t *testing.T, b *bulkhead.Bulkhead) int {
	t.Helper()
	return stateOf(t, b, "k").Limit
}

func acquireAll(t *testing.T, b *bulkhead.Bulkhead, n int) (all []*bulkhead.Permit) {
	t.Helper()
	for range n {
		all = append(all, acquire(t, b, "k", 1))
	}
	return all
}

func doneAll(all []*bulkhead.Permit, outcome core.Outcome) {
	for _, p := range all {
		p.Done(outcome)
	}
}

func TestOneOverloadLowersTheLimitOnce(t *testing.T) {
	t.Parallel()
	b := newBulkhead(t, bulkhead.Config{Limit: 60, MinLimit: 4, Backoff: 0.5, MaxQueue: -1})
	first := acquireAll(t, b, 60)
	doneAll(first[:50], core.Failure)
	require.Equal(t, 30, limitOf(t, b))
	second := acquireAll(t, b, 20)
	doneAll(second[:1], core.Failure)
	require.Equal(t, 15, limitOf(t, b))
	doneAll(first[50:], core.Failure)
	doneAll(second[1:], core.Failure)
	require.Equal(t, 15, limitOf(t, b), "calls of before the last decrease")
	for _, want := range []int{7, 4, 4} { // rounded down, to MinLimit
		doneAll(acquireAll(t, b, 3), core.Failure)
		require.Equal(t, want, limitOf(t, b))
	}
	require.Equal(t, uint64(4), b.Stats().Lowered)
	acquire(t, b, "other", 60) // keys are apart
}

func TestALoweredLimitAdmitsNoneUntilEnoughHaveEnded(t *testing.T) {
	t.Parallel()
	b := newBulkhead(t, bulkhead.Config{Limit: 8, Backoff: 0.5, MaxQueue: -1})
	all := acquireAll(t, b, 8)
	doneAll(all[:1], core.Failure)
	for _, p := range all[1:4] {
		_, err := b.Acquire(t.Context(), "k")
		require.ErrorIs(t, err, bulkhead.ErrFull)
		p.Done(core.Ignored)
	}
	_, err := b.Acquire(t.Context(), "k")
	require.ErrorIs(t, err, bulkhead.ErrFull, "4 of 4")
	all[4].Done(core.Ignored)
	acquire(t, b, "k", 1)
}

func TestSuccessesRaiseAUsedLimitByOneARound(t *testing.T) {
	t.Parallel()
	b := newBulkhead(t, bulkhead.Config{Limit: 8, Backoff: 0.5, MaxQueue: -1})
	all := acquireAll(t, b, 8)
	doneAll(all[:1], core.Failure)
	doneAll(all[1:], core.Success)
	require.Equal(t, 4, limitOf(t, b), "calls of before the decrease do not raise it")
	for range 100 {
		acquire(t, b, "k", 1).Done(core.Success)
	}
	require.Equal(t, 4, limitOf(t, b), "a quarter of it was used")
	for _, want := range []int{5, 6, 7, 8, 8} {
		limit := limitOf(t, b)
		busy := acquireAll(t, b, limit/2)
		for range limit {
			require.Equal(t, limit, limitOf(t, b))
			acquire(t, b, "k", 1).Done(core.Success)
		}
		doneAll(busy, core.Ignored)
		require.Equal(t, want, limitOf(t, b))
	}
	require.Equal(t, uint64(4), b.Stats().Raised)
}

func TestARaisedLimitAdmitsAWaiter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBulkhead(t, bulkhead.Config{Limit: 2, Backoff: 0.5})
		acquire(t, b, "k", 1).Done(core.Failure)
		p := acquire(t, b, "k", 1)
		one, two := enter(t, b, "k", 1), enter(t, b, "k", 1)
		p.Done(core.Success)
		synctest.Wait()
		require.True(t, one.over.Load() && two.over.Load())
	})
}

// A call that is heavier than a lowered limit neither waits for ever nor blocks the others.
func TestACallHeavierThanALoweredLimitRunsAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBulkhead(t, bulkhead.Config{Limit: 8, Backoff: 0.1})
		acquire(t, b, "k", 1).Done(core.Failure)
		require.Equal(t, 1, limitOf(t, b))
		p := acquire(t, b, "k", 1)
		heavy, light := enter(t, b, "k", 8), enter(t, b, "k", 1)
		require.False(t, heavy.over.Load())
		p.Done(core.Ignored)
		synctest.Wait()
		require.True(t, heavy.over.Load())
		require.False(t, light.over.Load())
		heavy.permit.Done(core.Success)
		synctest.Wait()
		require.True(t, light.over.Load())
		require.Equal(t, bulkhead.Stats{InFlight: 1, Limit: 2}, stateOf(t, b, "k"))
	})
}

func TestSetConfigOfAnAdaptiveLimit(t *testing.T) {
	t.Parallel()
	cfg := bulkhead.Config{Limit: 16, Backoff: 0.5, MaxQueue: -1}
	b := newBulkhead(t, cfg)
	lower := func() { acquire(t, b, "k", 1).Done(core.Failure) }
	set := func(f func(*bulkhead.Config)) int {
		f(&cfg)
		require.NoError(t, b.SetConfig(cfg))
		return limitOf(t, b)
	}
	lower()
	lower()
	require.Equal(t, 4, limitOf(t, b))
	require.Equal(t, 4, set(func(c *bulkhead.Config) { c.Limit = 20 }), "a limit that was lowered stays")
	require.Equal(t, 6, set(func(c *bulkhead.Config) { c.MinLimit = 6 }))
	require.Equal(t, 3, set(func(c *bulkhead.Config) { c.Limit, c.MinLimit = 3, 0 }))
	require.Equal(t, 10, set(func(c *bulkhead.Config) { c.Limit = 10 }), "it was at its highest")
	before := acquire(t, b, "k", 1)
	lower()
	require.Equal(t, 10, set(func(c *bulkhead.Config) { c.Backoff = 0 }), "fixed")
	fixed := acquire(t, b, "k", 1)
	require.Equal(t, 10, set(func(c *bulkhead.Config) { c.Backoff = 0.5 }))
	before.Done(core.Failure)
	fixed.Done(core.Failure)
	require.Equal(t, 10, limitOf(t, b), "calls of before")
	lower()
	require.Equal(t, 5, limitOf(t, b))
	require.Zero(t, stateOf(t, b, "k").InFlight)
}

func TestDoClassifies(t *testing.T) {
	t.Parallel()
	throttled, other := errors.New("throttled"), errors.New("other")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	late, stop := context.WithTimeoutCause(t.Context(), 0, context.DeadlineExceeded)
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
	for _, c := range []struct {
		classify func(context.Context, any, error) core.Outcome
		ctx      context.Context
		err      error
		lowered  uint64
	}{
		{nil, t.Context(), nil, 0},
		{nil, t.Context(), other, 1},
		{nil, t.Context(), core.ErrClosed, 0},
		{nil, ended, other, 0},
		{nil, late, other, 1},
		{only, t.Context(), other, 0},
		{only, t.Context(), throttled, 1},
	} {
		b := newBulkhead(t, bulkhead.Config{Backoff: 0.5, Classify: c.classify})
		_, err := bulkhead.Do(c.ctx, b, func(context.Context) (int, error) { return 3, c.err })
		require.Equal(t, c.err, err)
		require.Equal(t, c.lowered, b.Stats().Lowered, "%v", c.err)
	}
}

func TestADeadlineIsAFailure(t *testing.T) {
	t.Parallel()
	const limit = time.Second
	for _, waits := range []time.Duration{1, limit / 2, limit - 1} {
		for name, classify := range map[string]func(context.Context, any, error) core.Outcome{
			"zero": nil, "custom": breaker.Classify,
		} {
			synctest.Test(t, func(t *testing.T) {
				b := newBulkhead(t, bulkhead.Config{Limit: 4, Backoff: 0.5, Classify: classify})
				held := core.Must(b.AcquireN(t.Context(), "", 4))
				time.AfterFunc(waits, func() { held.Done(core.Ignored) })
				ctx, cancel := context.WithTimeoutCause(t.Context(), limit, &timeout.Error{Limit: limit})
				defer cancel()
				_, err := bulkhead.Do(ctx, b, func(ctx context.Context) (int, error) {
					<-ctx.Done()
					return 0, ctx.Err()
				})
				require.Equal(t, context.DeadlineExceeded, err, "as it is")
				require.EqualValues(t, 1, b.Stats().Lowered, "%v, %s", waits, name)
			})
		}
	}
}

// Against an upstream that punishes more than 8 calls at a time, the limit settles below.
func TestTheLimitFollowsTheUpstream(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBulkhead(t, bulkhead.Config{Limit: 60, Backoff: 0.5, MaxQueue: 10_000, MaxWait: -1})
		var inFlight, trips atomic.Int64
		done := make(chan struct{})
		for range 3000 {
			go func() {
				p, err := b.Acquire(t.Context(), "k")
				if err != nil {
					t.Error(err)
				}
				outcome := core.Success
				if inFlight.Add(1) > 8 {
					trips.Add(1)
					outcome = core.Failure
				}
				time.Sleep(100 * time.Millisecond)
				inFlight.Add(-1)
				p.Done(outcome)
				done <- struct{}{}
			}()
			synctest.Wait()
		}
		begin := time.Now()
		for range 3000 {
			<-done
		}
		require.Less(t, trips.Load(), int64(300), "60 at the start, and after that about one for each growth from 4 to 9")
		require.Less(t, time.Since(begin), 70*time.Second, "5 or more at a time")
	})
}

func TestFiguresOfLimitChanges(t *testing.T) {
	t.Parallel()
	r := &core.Registry{}
	b := newBulkhead(t, bulkhead.Config{Limit: 4, Backoff: 0.5, Registry: r})
	acquire(t, b, "k", 1).Done(core.Failure)
	changes := map[string]float64{}
	for _, f := range instance.Inner(r).Figures() {
		if f.Name == "limit_changes_total" {
			changes[f.Labels[1]] = f.N
		}
	}
	require.Equal(t, map[string]float64{"lowered": 1, "raised": 0}, changes)
}
