package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/core/ratelimit/driver"
	"github.com/gresil/gresil/internal/limits"
)

// TestWhoKeepsAskingCostsNothing: ten thousand refusals of one key are a handful of commands.
func TestWhoKeepsAskingCostsNothing(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, mode Mode) {
		t.Helper()
		ctx := context.Background()
		client := startServer(t).client(t)
		s := newStore(t, client, Config{Mode: mode, DenyCache: 10})
		s.denials.life = time.Hour // the machine may be slow
		table := open(t, s, "t")
		l := ratelimit.PerHour(3)
		id, err := table.Plan(l.Specs())
		require.NoError(t, err)
		require.True(t, take(t, table, "attacker", l, 3).Allowed)
		first := take(t, table, "attacker", l, 1)
		require.NoError(t, client.ConfigResetStat(ctx).Err())
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				last := first
				for range 1000 {
					r, err := table.Apply(ctx, "attacker", id, driver.Op{Cost: 1})
					if err != nil || r.Allowed || r.RetryAfter > last.RetryAfter || r.RetryAfter < time.Hour-time.Minute ||
						r.NextAfter != r.RetryAfter || r.FullAfter != r.RetryAfter {
						t.Errorf("%+v after %+v: %v", r, last, err)
						return
					}
					last = r
					r.RetryAfter, r.NextAfter, r.FullAfter = first.RetryAfter, first.NextAfter, first.FullAfter
					if r != first {
						t.Errorf("got %+v, want %+v", r, first)
						return
					}
				}
			})
		}
		wg.Wait()
		require.NotRegexp(t, `cmdstat_(evalsha|eval|get|set):`, client.Info(ctx, "commandstats").Val())
		got := s.Stats()
		require.EqualValues(t, 10_000, got.Denied)
		require.EqualValues(t, 2, got.Decided)
		require.True(t, take(t, table, "customer", l, 1).Allowed)
	})
}

// TestWhatIsNotCertainIsAsked: all but takes that must be refused.
func TestWhatIsNotCertainIsAsked(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := newStore(t, startServer(t).client(t), Config{DenyCache: 100})
	s.denials.life = time.Hour
	table := open(t, s, "t")
	l := ratelimit.TokenBucket(10, time.Hour, 10)
	id, err := table.Plan(l.Specs())
	require.NoError(t, err)
	higher, err := table.Plan(ratelimit.TokenBucket(20, time.Hour, 20).Specs())
	require.NoError(t, err)
	asked := func(key string, id driver.ID, op driver.Op) bool {
		before := s.counters.sent.Load()
		_, err := table.Apply(ctx, key, id, op)
		require.NoError(t, err)
		return s.counters.sent.Load() > before
	}
	refused := func(key string) ratelimit.Result {
		r := take(t, table, key, l, 6)
		require.True(t, r.Allowed)
		require.False(t, take(t, table, key, l, 5).Allowed)
		require.False(t, asked(key, id, driver.Op{Cost: 5}), key)
		return r
	}
	refused("a")
	for name, op := range map[string]driver.Op{
		"none": {}, "less": {Cost: 4}, "more": {Cost: 6}, "more than there are": {Cost: 11}, "as many": {Kind: driver.TakeAtMost, Cost: 5},
		"a look": {Kind: driver.Check, Cost: 5}, "a reservation": {Kind: driver.Reserve, Cost: 5, MaxWait: time.Minute},
	} {
		refused(name)
		require.True(t, asked(name, id, op), name)
		require.False(t, asked(name, id, driver.Op{Cost: 5}), "after %s it is known still", name)
	}
	refused("b")
	require.True(t, asked("b", higher, driver.Op{Cost: 5}), "another limit")
	r := refused("refund")
	require.True(t, asked("refund", id, driver.Op{Kind: driver.Refund, Cost: 6, Receipt: r.Receipt}))
	require.True(t, take(t, table, "refund", l, 5).Allowed)
	refused("reset")
	require.True(t, asked("reset", id, driver.Op{Kind: driver.Reset}))
	require.True(t, take(t, table, "reset", l, 5).Allowed)
	refused("drain")
	require.True(t, asked("drain", id, driver.Op{Kind: driver.Drain}))
	require.True(t, asked("drain", id, driver.Op{Cost: 5}))
	refused("limit")
	change := &driver.Change{Plan: id, Replaced: []driver.ID{higher}, At: time.Now()}
	require.False(t, asked("limit", id, driver.Op{Cost: 5, Change: change}), "a change gives nothing back")

	ctx, cancel := context.WithCancel(ctx)
	cancel()
	_, err = table.Apply(ctx, "a", id, driver.Op{Cost: 5})
	require.ErrorIs(t, err, context.Canceled)
}

// TestWhatWasGivenBackForOneWhoLeftIsKnown: nobody is refused what has come back.
func TestWhatWasGivenBackForOneWhoLeftIsKnown(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	client := startServer(t).client(t)
	s := newStore(t, client, Config{Mode: Coalesced, DenyCache: 1})
	s.denials.life = time.Hour
	table := open(t, s, "t")
	l := ratelimit.PerHour(1)
	id, err := table.Plan(l.Specs())
	require.NoError(t, err)
	take(t, table, "k", l, 0)
	lane := s.laneOf(keyName(keyPrefix(DefaultPrefix, "t"), "k", false))
	resume := pause(t, client, lane)
	leaving, leave := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = table.Apply(leaving, "k", id, driver.Op{Cost: 1}) })
	require.Eventually(t, queued(lane, 0), patient, time.Millisecond)
	leave()
	wg.Wait()
	wg.Go(func() { take(t, table, "k", l, 1) }) // refused, since the one before was granted first
	require.Eventually(t, queued(lane, 1), patient, time.Millisecond)
	resume()
	wg.Wait()
	require.Eventually(t, func() bool { return take(t, table, "k", l, 1).Allowed }, patient, time.Millisecond)
}

func TestADenialLastsAsLongAsItIsTrue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, op := &plan{Plan: limits.Plan{Capacity: 10}}, driver.Op{Cost: 2}
		for _, c := range []struct{ retry, until time.Duration }{{300 * time.Millisecond, 300 * time.Millisecond}, {time.Hour, time.Second}} {
			d := newDenials(1)
			_, known, q := d.refuse("t", "k", p, op)
			require.False(t, known)
			time.Sleep(100 * time.Millisecond) // the reply takes so long
			d.learn(q, "t", "k", p, 2, ratelimit.Result{RetryAfter: c.retry, NextAfter: 50 * time.Millisecond, FullAfter: 2 * c.retry})
			r, known, _ := d.refuse("t", "k", p, op)
			require.True(t, known)
			require.Equal(t, ratelimit.Result{RetryAfter: c.retry, NextAfter: 50 * time.Millisecond, FullAfter: 2 * c.retry}, r)
			time.Sleep(c.until - 100*time.Millisecond - 1)
			r, known, _ = d.refuse("t", "k", p, op)
			require.True(t, known)
			left := c.retry - c.until + 100*time.Millisecond + 1
			require.Equal(t, ratelimit.Result{RetryAfter: left, NextAfter: left, FullAfter: c.retry + left}, r)
			time.Sleep(time.Nanosecond)
			_, known, _ = d.refuse("t", "k", p, op)
			require.False(t, known, "counted from the question, not from its reply")
		}
	})
}

func TestDenialsOfSeveralCosts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, p, other := newDenials(1), &plan{Plan: limits.Plan{Capacity: 10}}, &plan{Plan: limits.Plan{Capacity: 10}}
		learn := func(p *plan, cost int64, retry time.Duration) {
			_, _, q := d.refuse("t", "k", p, driver.Op{Cost: cost})
			d.learn(q, "t", "k", p, cost, ratelimit.Result{RetryAfter: retry})
		}
		denied := func(p *plan, cost int64) time.Duration {
			r, _, _ := d.refuse("t", "k", p, driver.Op{Cost: cost})
			return r.RetryAfter
		}
		learn(p, 1, 100*time.Millisecond)
		learn(p, 2, 200*time.Millisecond)
		learn(p, 3, 300*time.Millisecond)
		learn(other, 3, 400*time.Millisecond)
		require.Equal(t, 100*time.Millisecond, denied(p, 1))
		require.Equal(t, 200*time.Millisecond, denied(p, 2))
		require.Equal(t, 300*time.Millisecond, denied(p, 3))
		require.Equal(t, 400*time.Millisecond, denied(other, 3))
		learn(p, 4, 500*time.Millisecond)
		require.Zero(t, denied(p, 1), "what ends first gives way")
		require.Equal(t, 500*time.Millisecond, denied(p, 4))
		time.Sleep(200 * time.Millisecond)
		require.Zero(t, denied(p, 2))
		learn(p, 2, 600*time.Millisecond)
		require.Equal(t, 600*time.Millisecond, denied(p, 2))
		require.Equal(t, 100*time.Millisecond, denied(p, 3))
		learn(p, 5, ratelimit.Never)
		require.Zero(t, denied(p, 5))
		d.forget("t", "k")
		for cost := range int64(6) {
			require.Zero(t, denied(p, cost)+denied(other, cost))
		}
	})
}

// TestAnAnswerFromBeforeARefundIsNotLearned: whichever of them comes first.
func TestAnAnswerFromBeforeARefundIsNotLearned(t *testing.T) {
	t.Parallel()
	d, p, refusal := newDenials(1), &plan{Plan: limits.Plan{Capacity: 10}}, ratelimit.Result{RetryAfter: time.Hour}
	_, _, q := d.refuse("t", "k", p, driver.Op{Cost: 1})
	d.ended("t", "k", driver.Op{Kind: driver.Refund, Cost: 1})
	d.learn(q, "t", "k", p, 1, refusal)
	_, denied, q := d.refuse("t", "k", p, driver.Op{Cost: 1})
	require.False(t, denied)
	d.learn(q, "t", "k", p, 1, refusal)
	_, denied, _ = d.refuse("t", "k", p, driver.Op{Cost: 1})
	require.True(t, denied)
	d.ended("t", "k", driver.Op{Kind: driver.Refund, Cost: 1})
	_, denied, _ = d.refuse("t", "k", p, driver.Op{Cost: 1})
	require.False(t, denied)
}

func TestDenialsAreBounded(t *testing.T) {
	t.Parallel()
	for _, most := range []int{1, 7, 16, 100} {
		d, p := newDenials(most), &plan{Plan: limits.Plan{Capacity: 10}}
		last := ""
		for i := range 5000 {
			key := strconv.Itoa(i % 3000)
			_, _, q := d.refuse("t", key, p, driver.Op{Cost: 1})
			d.learn(q, "t", key, p, 1, ratelimit.Result{RetryAfter: time.Hour})
			if last = key; i%3 == 0 {
				d.forget("t", key)
				last = ""
			}
		}
		held, places := 0, 0
		for i := range d.shards {
			held += len(d.shards[i].denied)
			places += len(d.shards[i].ring)
		}
		require.LessOrEqual(t, held, most)
		require.Equal(t, most/len(d.shards)*len(d.shards), places, "all are used")
		require.Positive(t, held)
		if last != "" {
			_, denied, _ := d.refuse("t", last, p, driver.Op{Cost: 1})
			require.True(t, denied, "the last is known")
		}
	}
}

//nolint:paralleltest // counts allocations
func TestADenialAllocatesNothing(t *testing.T) {
	ctx := context.Background()
	s := newStore(t, startServer(t).client(t), Config{DenyCache: 10})
	s.denials.life = time.Hour
	table := open(t, s, "t")
	l := ratelimit.PerHour(1)
	take(t, table, "k", l, 1)
	require.False(t, take(t, table, "k", l, 1).Allowed)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		if r, err := table.Apply(ctx, "k", 1, driver.Op{Cost: 1}); r.Allowed || err != nil {
			t.Error(fmt.Sprint(r, err))
		}
	}))
	require.Zero(t, testing.AllocsPerRun(100, func() { s.counters.trip(3, time.Millisecond) }))
}
