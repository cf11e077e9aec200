package denycache

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/ratelimittest"
	"github.com/gresil/gresil/internal/redistest"
	"github.com/gresil/gresil/stores/redisstore"
)

func inMemory() ratelimit.Store { return &ratelimittest.Memory{} }

// newStore wraps a store. Denials last for an hour: the machine can be slow.
func newStore(tb testing.TB, inner ratelimit.Store, cfg Config) *cache {
	tb.Helper()
	s, err := New(inner, cfg)
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = s.Close() })
	c := s.(*cache) //nolint:forcetypeassert // it is ours
	c.denials.life = time.Hour
	return c
}

// startRedis starts a server, and returns a client and a store in it.
func startRedis(tb testing.TB, mode redisstore.Mode) (*redis.Client, *redisstore.Store) {
	tb.Helper()
	client := redis.NewClient(&redis.Options{Addr: redistest.Start(tb).Addr})
	tb.Cleanup(func() { _ = client.Close() })
	return client, core.Must(redisstore.New(client, redisstore.Config{Mode: mode, Timeout: 10 * time.Second}))
}

func modes(t *testing.T, f func(*testing.T, redisstore.Mode)) {
	t.Helper()
	for _, mode := range []redisstore.Mode{redisstore.Strict, redisstore.Coalesced} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			f(t, mode)
		})
	}
}

func open(tb testing.TB, s ratelimit.Store) limits.Table {
	tb.Helper()
	table, err := s.Open("t")
	require.NoError(tb, err)
	return table
}

func take(tb testing.TB, t limits.Table, key string, l ratelimit.Limit, n int64) limits.Result {
	tb.Helper()
	id, err := t.Plan(limits.Limit(l).Specs())
	require.NoError(tb, err)
	r, err := t.Apply(context.Background(), key, id, limits.Op{Cost: n})
	require.NoError(tb, err)
	return r
}

// An asked is a store that counts the operations that reach it.
type asked struct {
	ratelimit.Store
	n *int
}

type askedTable struct {
	limits.Table
	n *int
}

func (s asked) Open(name string) (limits.Table, error) {
	t, err := s.Store.Open(name)
	return askedTable{t, s.n}, err
}

func (t askedTable) Apply(ctx context.Context, key string, id *limits.Plan, op limits.Op) (limits.Result, error) {
	*t.n++
	return t.Table.Apply(ctx, key, id, op)
}

func TestADenyCacheConforms(t *testing.T) {
	t.Parallel()
	for name, wrap := range map[string]func(ratelimit.Store) ratelimit.Store{
		"memory":  func(s ratelimit.Store) ratelimit.Store { return s },
		"failing": func(s ratelimit.Store) ratelimit.Store { return &ratelimittest.Failing{Store: s} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ratelimittest.Run(t, ratelimittest.Harness{
				Open: func(*testing.T) ratelimit.Store { return core.Must(New(wrap(inMemory()), Config{MaxKeys: 100})) }, Bubble: synctest.Test,
			})
		})
	}
}

// TestWhoKeepsAskingCostsNothing: ten thousand refusals of one key are a handful of commands.
func TestWhoKeepsAskingCostsNothing(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, mode redisstore.Mode) {
		t.Helper()
		ctx := context.Background()
		client, redis := startRedis(t, mode)
		s := newStore(t, redis, Config{MaxKeys: 10})
		table := open(t, s)
		l := ratelimit.PerHour(3)
		id, err := table.Plan(limits.Limit(l).Specs())
		require.NoError(t, err)
		require.True(t, take(t, table, "attacker", l, 3).Allowed)
		first := take(t, table, "attacker", l, 1)
		first.Receipt.At = -1 // those that follow are decided without the store
		require.NoError(t, client.ConfigResetStat(ctx).Err())
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				last := first
				for range 1000 {
					r, err := table.Apply(ctx, "attacker", id, limits.Op{Cost: 1})
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

// TestOnlyCertainRefusalsAreCached: every other operation goes to the store.
func TestOnlyCertainRefusalsAreCached(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	reached := 0
	s := newStore(t, asked{inMemory(), &reached}, Config{MaxKeys: 100})
	table := open(t, s)
	l := ratelimit.TokenBucket(10, time.Hour, 10)
	id, err := table.Plan(limits.Limit(l).Specs())
	require.NoError(t, err)
	higher, err := table.Plan(limits.Limit(ratelimit.TokenBucket(20, time.Hour, 20)).Specs())
	require.NoError(t, err)
	asked := func(key string, id *limits.Plan, op limits.Op) bool {
		before := reached
		_, err := table.Apply(ctx, key, id, op)
		require.NoError(t, err)
		return reached > before
	}
	refused := func(key string) limits.Result {
		r := take(t, table, key, l, 6)
		require.True(t, r.Allowed)
		require.False(t, take(t, table, key, l, 5).Allowed)
		require.False(t, asked(key, id, limits.Op{Cost: 5}), key)
		return r
	}
	refused("a")
	for name, op := range map[string]limits.Op{
		"none": {}, "less": {Cost: 4}, "more": {Cost: 6}, "more than there are": {Cost: 11}, "as many": {Kind: limits.TakeAtMost, Cost: 5},
		"a look": {Kind: limits.Check, Cost: 5}, "a reservation": {Kind: limits.Reserve, Cost: 5, MaxWait: time.Minute},
	} {
		refused(name)
		require.True(t, asked(name, id, op), name)
		require.False(t, asked(name, id, limits.Op{Cost: 5}), "after %s it is known still", name)
	}
	refused("b")
	require.True(t, asked("b", higher, limits.Op{Cost: 5}), "another limit")
	r := refused("refund")
	require.True(t, asked("refund", id, limits.Op{Kind: limits.Refund, Cost: 6, Receipt: r.Receipt}))
	require.True(t, take(t, table, "refund", l, 5).Allowed)
	refused("reset")
	require.True(t, asked("reset", id, limits.Op{Kind: limits.Reset}))
	require.True(t, take(t, table, "reset", l, 5).Allowed)
	refused("drain")
	require.True(t, asked("drain", id, limits.Op{Kind: limits.Drain}))
	require.True(t, asked("drain", id, limits.Op{Cost: 5}))

	ctx, cancel := context.WithCancel(ctx)
	cancel()
	require.True(t, asked("a", id, limits.Op{Cost: 5}), "the store returns the error of a context that has ended")
}

// A store that refunds a take after its caller has left can grant it again at once.
func TestNoRefusalIsCachedWhileATakeMightBeRefunded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slow := &ratelimittest.Failing{Store: inMemory()}
		s := newStore(t, slow, Config{})
		table, l := open(t, s), ratelimit.PerHour(1)
		require.True(t, take(t, table, "k", l, 1).Allowed)
		require.False(t, take(t, table, "k", l, 1).Allowed)
		slow.Delay(time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := table.Apply(ctx, "k", planned(t, table, l), limits.Op{Kind: limits.TakeAtMost, Cost: 1})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		slow.Delay(0)
		require.False(t, take(t, table, "k", l, 1).Allowed)
		require.Zero(t, s.Stats().Denied)
		time.Sleep(longestDenial)
		require.False(t, take(t, table, "k", l, 1).Allowed)
		require.False(t, take(t, table, "k", l, 1).Allowed)
		require.EqualValues(t, 1, s.Stats().Denied)
	})
}

// A take that was not sent changes no refusal.
func TestAnUnsentTakeKeepsTheDenial(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &ratelimittest.Failing{Store: inMemory()}
		table, l := open(t, newStore(t, store, Config{})), ratelimit.PerHour(9)
		take(t, table, "k", l, 5)
		require.False(t, take(t, table, "k", l, 5).Allowed)
		store.Down()
		_, err := table.Apply(t.Context(), "k", planned(t, table, l), limits.Op{Cost: 1})
		require.ErrorIs(t, err, ratelimittest.ErrDown)
		require.False(t, take(t, table, "k", l, 5).Allowed, "without the store")
	})
}

func TestADenialLastsAsLongAsItIsTrue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, op := &limits.Plan{}, limits.Op{Cost: 2}
		for _, c := range []struct{ retry, until time.Duration }{{300 * time.Millisecond, 300 * time.Millisecond}, {time.Hour, time.Second}} {
			d := newDenials(1)
			_, known, q := d.refuse("t", "k", p, op)
			require.False(t, known)
			time.Sleep(100 * time.Millisecond) // the reply takes so long
			d.learn(q, "t", "k", p, 2, limits.Result{RetryAfter: c.retry, NextAfter: 50 * time.Millisecond, FullAfter: 2 * c.retry})
			r, known, _ := d.refuse("t", "k", p, op)
			require.True(t, known)
			require.Equal(t, limits.Result{Receipt: limits.Receipt{At: -1, Plan: p}, RetryAfter: c.retry, NextAfter: 50 * time.Millisecond, FullAfter: 2 * c.retry}, r)
			time.Sleep(c.until - 100*time.Millisecond - 1)
			r, known, _ = d.refuse("t", "k", p, op)
			require.True(t, known)
			left := c.retry - c.until + 100*time.Millisecond + 1
			require.Equal(t, limits.Result{Receipt: limits.Receipt{At: -1, Plan: p}, RetryAfter: left, NextAfter: left, FullAfter: c.retry + left}, r)
			time.Sleep(time.Nanosecond)
			_, known, _ = d.refuse("t", "k", p, op)
			require.False(t, known, "counted from the question, not from its reply")
		}
	})
}

func TestDenialsOfSeveralCosts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, p, other := newDenials(1), &limits.Plan{}, &limits.Plan{Capacity: 1}
		learn := func(p *limits.Plan, cost int64, retry time.Duration) {
			_, _, q := d.refuse("t", "k", p, limits.Op{Cost: cost})
			d.learn(q, "t", "k", p, cost, limits.Result{RetryAfter: retry})
		}
		denied := func(p *limits.Plan, cost int64) time.Duration {
			r, _, _ := d.refuse("t", "k", p, limits.Op{Cost: cost})
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
		learn(p, 5, limits.Never)
		require.Zero(t, denied(p, 5))
		d.forget("t", "k", 0)
		for cost := range int64(6) {
			require.Zero(t, denied(p, cost)+denied(other, cost))
		}
	})
}

// TestAnAnswerFromBeforeARefundIsNotLearned: whichever of them comes first.
func TestAnAnswerFromBeforeARefundIsNotLearned(t *testing.T) {
	t.Parallel()
	d, p, refusal := newDenials(1), &limits.Plan{}, limits.Result{RetryAfter: time.Hour}
	_, _, q := d.refuse("t", "k", p, limits.Op{Cost: 1})
	d.forget("t", "k", 0)
	d.learn(q, "t", "k", p, 1, refusal)
	_, denied, q := d.refuse("t", "k", p, limits.Op{Cost: 1})
	require.False(t, denied)
	d.learn(q, "t", "k", p, 1, refusal)
	_, denied, _ = d.refuse("t", "k", p, limits.Op{Cost: 1})
	require.True(t, denied)
	d.forget("t", "k", 0)
	_, denied, _ = d.refuse("t", "k", p, limits.Op{Cost: 1})
	require.False(t, denied)
}

// The last keys are kept, as many as there may be, whatever was dropped meanwhile.
func TestDenialsAreBounded(t *testing.T) {
	t.Parallel()
	for _, most := range []int{1, 2, 10, 17, 100} {
		d, p := newDenials(most), &limits.Plan{}
		d.life = time.Hour
		refuse := func(i int) (known bool) {
			key := strconv.Itoa(i)
			_, known, q := d.refuse("t", key, p, limits.Op{Cost: 1})
			d.learn(q, "t", key, p, 1, limits.Result{RetryAfter: time.Hour})
			return known
		}
		last := 1000
		for i := range last + 1 {
			if require.False(t, refuse(i)); i%3 == 0 {
				d.forget("t", strconv.Itoa(i), 0)
			}
		}
		for n := 0; n < most; last-- {
			if last%3 != 0 {
				require.True(t, refuse(last), "%d of %d", n, most)
				n++
			}
		}
		require.False(t, refuse(last))
		require.Len(t, d.denied, most)
	}
}

//nolint:paralleltest // counts allocations
func TestADenialAllocatesNothing(t *testing.T) {
	ctx := context.Background()
	table := open(t, newStore(t, inMemory(), Config{}))
	l := ratelimit.PerHour(1)
	take(t, table, "k", l, 1)
	require.False(t, take(t, table, "k", l, 1).Allowed)
	plan := planned(t, table, l)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		if r, err := table.Apply(ctx, "k", plan, limits.Op{Cost: 1}); r.Allowed || err != nil {
			t.Error(r, err)
		}
	}))
}

func TestAClosedCacheFails(t *testing.T) {
	t.Parallel()
	s := newStore(t, inMemory(), Config{})
	table, l := open(t, s), ratelimit.PerHour(1)
	take(t, table, "k", l, 1)
	require.False(t, take(t, table, "k", l, 1).Allowed)
	require.False(t, take(t, table, "k", l, 1).Allowed)
	require.EqualValues(t, 1, s.Stats().Denied)
	require.NoError(t, s.Close())
	require.NoError(t, s.Close())
	_, err := table.Apply(t.Context(), "k", planned(t, table, ratelimit.PerHour(1)), limits.Op{Cost: 1})
	require.ErrorIs(t, err, core.ErrClosed)
}

func TestConfigOfADenyCache(t *testing.T) {
	t.Parallel()
	_, err := New(inMemory(), Config{MaxKeys: -1})
	require.ErrorContains(t, err, "denycache.Config.MaxKeys = -1: must be >= 0 (0 means 10000)")
	for _, missing := range []ratelimit.Store{nil, (*cache)(nil)} {
		_, err = New(missing, Config{})
		require.EqualError(t, err, "denycache store = <nil>: must not be nil")
	}
	registry := &core.Registry{}
	cfg := Config{Registry: registry, Name: "redis"}
	s, err := New(inMemory(), cfg)
	require.NoError(t, err)
	got, _ := core.Lookup[*cache](registry, "redis")
	require.Same(t, s, got)
	_, err = New(inMemory(), cfg)
	require.ErrorContains(t, err, "already registered")
	require.NoError(t, s.Close())
	_, ok := core.Lookup[*cache](registry, "redis")
	require.False(t, ok)
}

func planned(tb testing.TB, t limits.Table, l ratelimit.Limit) *limits.Plan {
	tb.Helper()
	p, err := t.Plan(limits.Limit(l).Specs())
	require.NoError(tb, err)
	return p
}
