package gate_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/outbound/gate"
)

// tokens is a limit whose slots are 1.2 seconds apart for each unit.
func tokens(burst int64) gate.Limit {
	return gate.Limit{Name: "tokens", N: 49 + burst, Per: time.Minute - 50*time.Millisecond, Burst: burst}
}

const unit = 1200 * time.Millisecond // of tokens

func costs(n int64) gate.Call { return gate.Call{Costs: map[string]int64{"tokens": n}} }

func actual(n int64) map[string]int64 { return map[string]int64{"tokens": n} }

// paid makes a call of a cost that is settled afterwards, and returns its context.
func paid(t tester, g *gate.Gate, cost int64, settled ...int64) context.Context {
	t.Helper()
	ctx := g.WithCall(t.Context(), costs(cost))
	require.NoError(t, do(ctx, g, gate.Call{}, 0))
	for _, n := range settled {
		require.NoError(t, g.Settle(ctx, actual(n)))
	}
	return ctx
}

// What is too much is given back, what is too little is charged to the calls that follow. Afterwards, a call of 10 waits.
func TestSettle(t *testing.T) {
	t.Parallel()
	none := func(context.Context) error { return nil }
	for name, row := range map[string]struct {
		do   func(t tester, g *gate.Gate)
		want time.Duration // the wait; the capacity is 20
	}{
		"not settled":       {func(t tester, g *gate.Gate) { paid(t, g, 20) }, 10 * unit},
		"exact":             {func(t tester, g *gate.Gate) { paid(t, g, 20, 20) }, 10 * unit},
		"less":              {func(t tester, g *gate.Gate) { paid(t, g, 20, 13) }, 3 * unit},
		"nothing":           {func(t tester, g *gate.Gate) { paid(t, g, 20, 0) }, 0},
		"more":              {func(t tester, g *gate.Gate) { paid(t, g, 20, 33) }, 23 * unit},
		"much more than N":  {func(t tester, g *gate.Gate) { paid(t, g, 20, 1<<62) }, 59 * unit},
		"the second counts": {func(t tester, g *gate.Gate) { paid(t, g, 20, 5, 33, 12, 15) }, 5 * unit},
		"other limits": {func(t tester, g *gate.Gate) {
			require.NoError(t, g.Settle(paid(t, g, 20), map[string]int64{"calls": 9}))
		}, 10 * unit},
		"without a call": {func(t tester, g *gate.Gate) { paid(t, g, 20); require.NoError(t, g.Settle(t.Context(), actual(0))) }, 10 * unit},
		"of a call that was not sent": {func(t tester, g *gate.Gate) {
			ctx := g.WithCall(t.Context(), costs(20))
			p, err := g.Reserve(ctx, gate.Call{})
			require.NoError(t, err)
			p.Cancel()
			paid(t, g, 20)
			require.NoError(t, g.Settle(ctx, actual(0)))
		}, 10 * unit},
		"of a permit": {func(t tester, g *gate.Gate) {
			ctx := g.WithCall(t.Context(), costs(20))
			p, err := g.Wait(ctx, gate.Call{})
			require.NoError(t, err)
			p.Done(nil)
			require.NoError(t, g.Settle(ctx, actual(11)))
		}, unit},
		"canceled permits, the last one first": {func(t tester, g *gate.Gate) {
			var permits []*gate.Permit
			for range 3 {
				p, err := g.Reserve(t.Context(), costs(10))
				require.NoError(t, err)
				permits = append(permits, p)
			}
			require.NoError(t, permits[0].Wait(t.Context()))
			permits[0].Done(nil)
			permits[2].Cancel()
			permits[1].Cancel()
		}, 0},
		"in the function": {func(t tester, g *gate.Gate) {
			require.NoError(t, g.Do(t.Context(), costs(20), func(ctx context.Context) error {
				_ = g.Settle(ctx, actual(2))
				return g.Settle(ctx, actual(11))
			}))
		}, unit},
		"in the function, not sent": {func(t tester, g *gate.Gate) {
			require.ErrorIs(t, g.Do(t.Context(), costs(20), func(ctx context.Context) error {
				_ = g.Settle(ctx, actual(0))
				return core.ErrRejected
			}), core.ErrRejected)
			paid(t, g, 20)
		}, 10 * unit},
		"after the function": {func(t tester, g *gate.Gate) {
			var of context.Context
			require.NoError(t, g.Do(t.Context(), costs(20), func(ctx context.Context) error { of = ctx; return nil })) //nolint:fatcontext // it is settled after the function
			require.NoError(t, g.Settle(of, actual(11)))
		}, unit},
		"in the function, sent again": {func(t tester, g *gate.Gate) {
			first := true
			require.NoError(t, g.Do(t.Context(), costs(20), func(ctx context.Context) error {
				if first {
					first = false
					require.NoError(t, g.Settle(ctx, actual(7)))
					return refusal{time.Minute}
				}
				return g.Settle(ctx, actual(11))
			}))
		}, unit},
		"of the call in the function": {func(t tester, g *gate.Gate) {
			require.NoError(t, g.Do(t.Context(), costs(6), func(ctx context.Context) error {
				_ = g.Do(ctx, gate.Call{}, none)
				require.NoError(t, g.Do(ctx, costs(14), none)) // a call of its own
				return g.Settle(ctx, actual(8))
			}))
		}, 4 * unit},
		"of the last call": {func(t tester, g *gate.Gate) {
			ctx := g.WithCall(t.Context(), costs(14))
			for _, n := range []int64{6, 14} {
				require.NoError(t, g.Do(g.WithCall(ctx, costs(n)), gate.Call{}, none))
			}
			require.NoError(t, g.Settle(ctx, actual(5)))
		}, unit},
		"of the last page of a stream": {func(t tester, g *gate.Gate) {
			ctx, dial := g.WithCall(t.Context(), costs(10)), func(context.Context, string) (string, error) { return "", nil }
			p := core.Must(gate.NewPool(g, gate.PoolConfig[string, string]{Dial: dial}))
			for _, err := range gate.Stream(ctx, p, "a", 1, func(ctx context.Context, _ string, page int) ([]int, int, error) {
				return nil, (page + 1) % 3, g.Settle(ctx, actual(6))
			}) {
				require.NoError(t, err)
			}
			require.NoError(t, g.Settle(ctx, actual(5)))
		}, unit},
		"with later calls, which have left as much": {func(t tester, g *gate.Gate) {
			ctx := paid(t, g, 15)
			paid(t, g, 5)
			require.NoError(t, g.Settle(ctx, actual(0)))
			paid(t, g, 5)
		}, 0},
		"with a later call, which has left less": {func(t tester, g *gate.Gate) {
			ctx := paid(t, g, 15)
			paid(t, g, 15) // when 5 are left
			require.NoError(t, g.Settle(ctx, actual(0)))
		}, 5 * unit},
		"with later calls, of which one has cost more": {func(t tester, g *gate.Gate) {
			first, second := paid(t, g, 20), paid(t, g, 10) // when 10 are left
			paid(t, g, 10)
			require.NoError(t, g.Settle(second, actual(15)))
			require.NoError(t, g.Settle(first, actual(0)))
		}, 5 * unit},
		"with a later call after a pause": {func(t tester, g *gate.Gate) {
			ctx := paid(t, g, 15)
			time.Sleep(15 * unit)
			paid(t, g, 20)
			require.NoError(t, g.Settle(ctx, actual(0)))
		}, 10 * unit},
		"before the end of the period": {func(t tester, g *gate.Gate) {
			ctx := paid(t, g, 20)
			time.Sleep(time.Minute - 100*time.Millisecond)
			require.NoError(t, g.Settle(ctx, actual(69)))
		}, 59*unit - time.Minute + 100*time.Millisecond},
		"after the usage is over": {func(t tester, g *gate.Gate) {
			ctx := paid(t, g, 20)
			time.Sleep(50 * time.Second)
			paid(t, g, 0)
			require.NoError(t, g.Settle(ctx, actual(69)))
		}, 59*unit - 50*time.Second},
		"after the limit was removed for a while": {func(t tester, g *gate.Gate) {
			var of context.Context
			cfg, none := g.Config(), g.Config()
			none.Limits = none.Limits[:1]
			require.NoError(t, g.Do(t.Context(), costs(20), func(ctx context.Context) error {
				of = ctx //nolint:fatcontext // it is settled after the function
				require.NoError(t, g.SetConfig(none))
				time.Sleep(40 * time.Second)
				return nil
			}))
			require.NoError(t, g.SetConfig(cfg))
			require.NoError(t, g.Settle(of, actual(0)))
		}, 0},
		"after the period": {func(t tester, g *gate.Gate) {
			ctx := paid(t, g, 20)
			time.Sleep(time.Minute)
			require.NoError(t, g.Settle(ctx, actual(69)))
		}, 0},
		"the limit is changed": {func(t tester, g *gate.Gate) {
			ctx := paid(t, g, 10, 8)
			time.Sleep(10 * time.Millisecond)
			cfg := g.Config()
			cfg.Limits = []gate.Limit{{Name: "tokens", N: 69, Per: 30*time.Second - 50*time.Millisecond, Burst: 20}}
			require.NoError(t, g.SetConfig(cfg))
			paid(t, g, 1) // the Store learns of it
			require.NoError(t, g.Settle(ctx, actual(0)))
			require.NoError(t, g.Settle(ctx, actual(17)))
		}, 16 * unit / 2},
		"the limit is changed, and nobody has called": {func(t tester, g *gate.Gate) {
			ctx := paid(t, g, 10, 8)
			time.Sleep(10 * time.Millisecond)
			cfg := g.Config()
			cfg.Limits = []gate.Limit{{Name: "tokens", N: 69, Per: 30*time.Second - 50*time.Millisecond, Burst: 20}}
			require.NoError(t, g.SetConfig(cfg))
			require.NoError(t, g.Settle(ctx, actual(17)))
		}, 7 * unit / 2},
		"the limit is changed to a lower one, and nobody has called": {func(t tester, g *gate.Gate) {
			paid(t, g, 20)
			time.Sleep(10 * unit)
			ctx := paid(t, g, 10)
			cfg := g.Config()
			cfg.Limits = []gate.Limit{{Name: "tokens", N: 69, Per: 2*time.Minute - 50*time.Millisecond, Burst: 20}}
			require.NoError(t, g.SetConfig(cfg))
			require.NoError(t, g.Settle(ctx, actual(0)))
			paid(t, g, 10)
		}, 20 * unit},
		"the limit is changed to less than the estimate": {func(t tester, g *gate.Gate) {
			ctx := paid(t, g, 20)
			cfg := g.Config()
			cfg.Limits = []gate.Limit{{Name: "tokens", N: 15, Per: 6*unit - 50*time.Millisecond, Burst: 10}}
			require.NoError(t, g.SetConfig(cfg))
			require.NoError(t, g.Settle(ctx, actual(20)))
		}, 20 * unit},
		"more than the vendor still counts": {func(t tester, g *gate.Gate) {
			var of []context.Context
			for range 2 {
				of = append(of, paid(t, g, 10, 69))
			}
			for _, ctx := range of {
				require.NoError(t, g.Settle(ctx, actual(0)))
			}
		}, 59 * unit},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limits := []gate.Limit{{Name: "calls", N: 100, Per: time.Minute, Burst: 20}, tokens(20)}
			withStoreAndWithout(t, gate.Config{Limits: limits}, func(t tester, g *gate.Gate) {
				row.do(t, g)
				time.Sleep(10 * time.Millisecond) // until the Store knows
				start := time.Now()
				paid(t, g, 10)
				require.InDelta(t, row.want, time.Since(start), float64(50*time.Millisecond))
			})
		})
	}
}

// When many slots have left different amounts, those of the first ones are taken for as low as the lowest.
func TestSettleOfManyCalls(t *testing.T) {
	t.Parallel()
	for first, want := range map[int]time.Duration{4: 41 * unit, 10: 40 * unit} {
		withStoreAndWithout(t, gate.Config{Limits: []gate.Limit{tokens(60)}}, func(t tester, g *gate.Gate) {
			start := time.Now()
			var calls []context.Context
			for range 41 {
				calls = append(calls, paid(t, g, 1))
			}
			require.NoError(t, g.Settle(calls[first], actual(0)))
			time.Sleep(10 * time.Millisecond)
			paid(t, g, 60)
			require.InDelta(t, want, time.Since(start), float64(50*time.Millisecond))
		})
	}
}

// A call that waits is sent as soon as there is enough for it.
func TestSettleBeforeWaiter(t *testing.T) {
	t.Parallel()
	withStoreAndWithout(t, gate.Config{Limits: []gate.Limit{tokens(20)}}, func(t tester, g *gate.Gate) {
		start := time.Now()
		ctx := paid(t, g, 20)
		time.AfterFunc(time.Second, func() { _ = g.Settle(ctx, actual(5)) })
		paid(t, g, 15)
		require.InDelta(t, time.Second, time.Since(start), float64(60*time.Millisecond))
	})
}

func TestSettleThatCannotBe(t *testing.T) {
	t.Parallel()
	bubble(t, gate.Config{Limits: []gate.Limit{tokens(20)}}, func(t tester, g *gate.Gate) {
		ctx := paid(t, g, 20)
		for want, costs := range map[string]map[string]int64{
			`gate.Settle.actual = calls: must be the name of a limit`:                  {"calls": 1},
			`gate.Settle.actual = -1: must be >= 0, as the cost in the limit "tokens"`: {"tokens": -1},
		} {
			err := g.Settle(ctx, costs)
			require.EqualError(t, err, want)
			require.ErrorIs(t, err, core.ErrConfig)
		}
		require.NoError(t, g.Settle(ctx, nil))
		cfg := g.Config()
		cfg.Limits = []gate.Limit{{Name: "tokens"}, {Name: "calls", N: 1, Per: time.Second}}
		require.NoError(t, g.SetConfig(cfg))
		require.NoError(t, g.Settle(ctx, map[string]int64{"tokens": 9, "calls": 0}), "there are only holds now")
	})
}

var errNamed = errors.New("bucket x")

// What a call has cost in addition is charged to the bucket that the vendor has named meanwhile. What was taken in excess is given back in
// its own key. In memory, the bucket has the usage that the key had.
func TestSettleOfRenamedKey(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		settled      []int64
		want, shared time.Duration // the wait for 10 units of the bucket, in memory and with a Store
	}{
		"not settled": {nil, 10 * unit, 0},
		"less":        {[]int64{5}, 10 * unit, 0},
		"more":        {[]int64{33}, 23 * unit, 23 * unit},
		"twice":       {[]int64{33, 33}, 23 * unit, 23 * unit},
		"then less":   {[]int64{33, 0}, 23 * unit, 23 * unit},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limit := tokens(20)
			limit.Key = gate.ByCall
			cfg := gate.Config{Limits: []gate.Limit{limit}, Classify: func(_ *http.Response, err error) gate.Signal {
				return gate.Signal{Quotas: []gate.Quota{{Bucket: "x"}}}
			}}
			withStoreAndWithout(t, cfg, func(t tester, g *gate.Gate) {
				call := func(cost int64, err error) context.Context {
					ctx := g.WithCall(t.Context(), gate.Call{Keys: map[string]string{"tokens": "a"}, Costs: map[string]int64{"tokens": cost}})
					require.Equal(t, err, g.Do(ctx, gate.Call{}, func(context.Context) error { return err }))
					return ctx
				}
				ctx, want := call(20, errNamed), row.want
				if g.Config().Store != nil {
					want = row.shared
				}
				for _, n := range row.settled {
					require.NoError(t, g.Settle(ctx, actual(n)))
				}
				time.Sleep(10 * time.Millisecond)
				start := time.Now()
				ctx = call(10, nil)
				require.InDelta(t, want, time.Since(start), float64(50*time.Millisecond))
				require.NoError(t, g.Settle(ctx, actual(0)))
				time.Sleep(10 * time.Millisecond)
				call(10, nil)
				require.InDelta(t, want, time.Since(start), float64(50*time.Millisecond), "in the bucket")
			})
		})
	}
}

// A settlement does not give back the usage of a key that was merged into the bucket.
func TestSettleInBucket(t *testing.T) {
	t.Parallel()
	limit := tokens(20)
	limit.Key = gate.ByCall
	cfg := gate.Config{Limits: []gate.Limit{limit}, Classify: func(*http.Response, error) gate.Signal {
		return gate.Signal{Quotas: []gate.Quota{{Bucket: "x"}}}
	}}
	bubble(t, cfg, func(t tester, g *gate.Gate) {
		call := func(key string, cost int64, err error) context.Context {
			ctx := g.WithCall(t.Context(), gate.Call{Keys: map[string]string{"tokens": key}, Costs: map[string]int64{"tokens": cost}})
			require.Equal(t, err, g.Do(ctx, gate.Call{}, func(context.Context) error { return err }))
			return ctx
		}
		call("a", 1, errNamed)
		time.Sleep(time.Minute)
		ctx := call("a", 20, nil)
		call("b", 20, errNamed)
		require.NoError(t, g.Settle(ctx, actual(0)))
		start := time.Now()
		call("a", 10, nil)
		require.InDelta(t, 10*unit, time.Since(start), float64(50*time.Millisecond))
	})
}

// What is settled while the Store is unavailable is lost, and not given back by a later settlement.
func TestSettleWithoutStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		redis := newRedis(2 * time.Millisecond)
		gates, _ := gatesOf(t, redis, 1, gate.Config{Limits: []gate.Limit{tokens(20)}})
		defer closeAll(gates)
		g, start := gates[0], time.Now()
		paid(tester{t}, g, 10)
		ctx := paid(tester{t}, g, 10)
		paid(tester{t}, g, 1)
		redis.down.Store(true)
		within, cancel := context.WithTimeout(t.Context(), time.Second)
		require.Error(t, do(within, g, costs(20), 0))
		cancel()
		require.NoError(t, g.Settle(ctx, actual(20)))
		redis.down.Store(false)
		time.Sleep(2 * time.Second)
		require.NoError(t, g.Settle(ctx, actual(0)))
		time.Sleep(10 * time.Millisecond)
		paid(tester{t}, g, 20)
		require.InDelta(t, 21*unit, time.Since(start), float64(50*time.Millisecond))
	})
}

// What is settled right before Close reaches the other processes, and after it nothing is sent.
func TestSettleAndClose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := newRedis(2 * time.Millisecond)
		gates, _ := gatesOf(t, v, 2, gate.Config{Limits: []gate.Limit{tokens(20)}})
		defer closeAll(gates)
		ctx := paid(tester{t}, gates[0], 20, 5)
		require.NoError(t, gates[0].Close(t.Context()))
		n := len(v.log())
		require.NoError(t, gates[0].Settle(ctx, actual(0)))
		time.Sleep(time.Minute / 60)
		require.Len(t, v.log(), n)
		start := time.Now()
		paid(tester{t}, gates[1], 20)
		require.InDelta(t, 5*unit-time.Second, time.Since(start), float64(50*time.Millisecond))
	})
}

// A settlement counts once, though its reply is lost.
func TestSettledOnce(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		lost, then int64 // the settlement whose reply is lost, and the one after it; -1 is none
		want       time.Duration
	}{
		"less":               {10, -1, 10 * unit},
		"more":               {30, -1, 30 * unit},
		"less, then more":    {10, 15, 10 * unit}, // it cannot be settled any more
		"more, then as much": {30, 20, 30 * unit},
	} {
		synctest.Test(t, func(t *testing.T) {
			store := &broken{Table: core.Must(newRedis(2 * time.Millisecond).process(0).OpenGate(""))}
			g := core.Must(gate.New(gate.Config{Name: "ads", Store: store, Limits: []gate.Limit{tokens(20)}}))
			defer closeAll([]*gate.Gate{g})
			start := time.Now()
			ctx := paid(tester{t}, g, 20)
			store.lost.Store(true)
			require.NoError(t, g.Settle(ctx, actual(row.lost)))
			time.Sleep(2 * time.Second)
			store.lost.Store(false)
			time.Sleep(2 * time.Second)
			if row.then >= 0 {
				require.NoError(t, g.Settle(ctx, actual(row.then)))
			}
			time.Sleep(10 * time.Millisecond)
			paid(tester{t}, g, 20)
			require.InDelta(t, row.want, time.Since(start), float64(50*time.Millisecond), name)
		})
	}
}

// A step is a call of a cost, and what becomes of it.
type step struct {
	cost, actual int64 // actual is -1 if it is not settled
	cancel       bool
	later        int           // so many steps until it is settled or canceled
	pass         time.Duration // after the call
}

// randomSteps returns calls that cost at most so much more than their estimate. The times are such that the processors make no difference.
func randomSteps(random *rand.Rand, burst, more int64) (steps []step) {
	for range 150 {
		s := step{cost: 1 + random.Int64N(burst), actual: -1, cancel: random.IntN(8) == 0, later: 1 + random.IntN(8)}
		if random.IntN(3) == 0 {
			s.cost = 1 + random.Int64N(min(burst, 3))
		}
		if random.IntN(5) > 0 {
			s.actual = random.Int64N(s.cost + min(more, s.cost) + 1)
		}
		s.pass = time.Duration(random.Int64N(4)*random.Int64N(4)*burst) * 100 * time.Millisecond
		steps = append(steps, s)
	}
	return steps
}

// run makes the calls of steps, and returns their permits.
func run(t tester, g *gate.Gate, steps []step) (permits []*gate.Permit) {
	t.Helper()
	var all []context.Context
	var group sync.WaitGroup
	defer group.Wait()
	for i := range len(steps) + 30 {
		synctest.Wait()
		for k, ctx := range all {
			s, sent := steps[k], !time.Now().Before(permits[k].At)
			switch {
			case i < k+s.later:
			case s.cancel && i == k+s.later:
				permits[k].Cancel()
			case !s.cancel && sent && s.actual >= 0:
				require.NoError(t, g.Settle(ctx, actual(s.actual))) // a second time, it has no effect
			}
		}
		if i >= len(steps) {
			time.Sleep(10 * time.Second)
			continue
		}
		time.Sleep(25 * time.Millisecond) // until the Store knows
		ctx := g.WithCall(t.Context(), costs(steps[i].cost))
		p, err := g.Reserve(ctx, gate.Call{})
		require.NoError(t, err)
		if all, permits = append(all, ctx), append(permits, p); !steps[i].cancel {
			group.Go(func() {
				require.NoError(t, p.Wait(t.Context()))
				p.Done(nil)
			})
		}
		time.Sleep(steps[i].pass)
	}
	return permits
}

// Whatever is settled and given back, no interval of d has more than Burst + d / spacing units of what calls have really cost, and what some
// have cost in addition to their estimates: so no period has more than N. With a Store, the slots are the same, unless a call has cost more
// when the usage was over: the Store has forgotten it by then.
func TestRandomSettlements(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 32)) //nolint:gosec // a test
			burst := 1 + random.Int64N([]int64{20, 70}[seed%2])
			steps := randomSteps(random, burst, int64(seed/2%2)*burst)
			var slots [2][]time.Duration
			for i, store := range []gate.Store{nil, newRedis(0).process(0)} {
				synctest.Test(t, func(t *testing.T) {
					g := core.Must(gate.New(gate.Config{Name: "ads", Store: store, Limits: []gate.Limit{tokens(burst)}}))
					start := time.Now()
					for _, p := range run(tester{t}, g, steps) {
						slots[i] = append(slots[i], p.At.Sub(start))
					}
					require.NoError(t, g.Close(t.Context()))
				})
			}
			for k, at := range slots[0] {
				if seed/2%2 == 0 {
					require.InDelta(t, at, slots[1][k], float64(time.Millisecond), "slot %d", k)
				}
			}
			for _, at := range slots {
				var inOrder []int
				for k := range at {
					inOrder = append(inOrder, k)
				}
				slices.SortFunc(inOrder, func(a, b int) int { return cmp.Compare(at[a], at[b]) })
				for first, from := range inOrder {
					sum := int64(0)
					for _, k := range inOrder[first:] {
						switch s := steps[k]; {
						case s.cancel:
						case s.actual >= 0:
							sum += min(s.actual, s.cost) // without what it has cost in addition
						default:
							sum += s.cost
						}
						if spent := at[k] - at[from]; sum > burst+int64(spent/unit) {
							t.Fatalf("%d from %v to %v", sum, at[from], at[k])
						}
					}
				}
			}
		})
	}
}

// The function of the user reads a bounded part of the body, which the caller reads again, and what it returns is settled.
func TestActual(t *testing.T) {
	t.Parallel()
	const peek = 64 << 10
	text := strings.Repeat("0123456789", 10_000)
	for name, row := range map[string]struct {
		statuses []int
		read     []int // by the function: the status, and how much of the body
		actual   map[string]int64
		settled  bool          // by the caller, for 11
		want     time.Duration // the wait of a call of 10
	}{
		"answer":     {[]int{200}, []int{200, peek}, actual(11), false, unit},
		"failure":    {[]int{500}, []int{500, peek}, actual(11), false, unit},
		"refusal":    {[]int{429, 200}, []int{200, peek}, actual(25), false, 15 * unit}, // that call is not settled
		"for good":   {[]int{402}, nil, actual(0), false, 10 * unit},
		"executed":   {[]int{409}, []int{409, peek}, actual(11), false, unit},
		"not known":  {[]int{200}, []int{200, peek}, nil, false, 10 * unit},
		"impossible": {[]int{200}, []int{200, peek}, map[string]int64{"tokens": -1, "calls": 9}, false, 10 * unit},
		"caller":     {[]int{200}, []int{200, peek}, nil, true, unit},
		"both":       {[]int{200}, []int{200, peek}, actual(5), true, unit},
	} {
		for _, inDo := range []bool{false, true} {
			t.Run(name+map[bool]string{true: ", in Do"}[inDo], func(t *testing.T) {
				t.Parallel()
				var read []int
				cfg := gate.Config{Limits: []gate.Limit{tokens(20)}}
				cfg.Classify = func(resp *http.Response, _ error) gate.Signal {
					executed, permanent := resp.StatusCode == http.StatusConflict, resp.StatusCode == http.StatusPaymentRequired
					return gate.Signal{Limited: executed || resp.StatusCode == http.StatusTooManyRequests, Executed: executed, Permanent: permanent, Pause: time.Second}
				}
				cfg.Actual = func(resp *http.Response) map[string]int64 {
					b, err := io.ReadAll(resp.Body)
					require.NoError(t, err)
					read = append(read, resp.StatusCode, len(b))
					return row.actual
				}
				bubble(t, cfg, func(t tester, g *gate.Gate) {
					statuses := row.statuses
					rt := g.Transport(roundTrip(func(r *http.Request) (*http.Response, error) {
						resp := &http.Response{StatusCode: statuses[0], Body: io.NopCloser(strings.NewReader(text)), Request: r}
						statuses = statuses[1:]
						return resp, nil
					}))
					send := func(ctx context.Context) error {
						ctx = g.WithCall(ctx, gate.Call{})
						req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://vendor.test", nil)
						require.NoError(t, err)
						resp, err := rt.RoundTrip(req)
						require.NoError(t, err)
						got, err := io.ReadAll(resp.Body)
						require.NoError(t, err)
						require.Equal(t, text, string(got))
						require.NoError(t, resp.Body.Close())
						if row.settled {
							require.NoError(t, g.Settle(ctx, actual(11)))
						}
						return nil
					}
					if inDo {
						require.NoError(t, g.Do(t.Context(), costs(20), send))
					} else {
						require.NoError(t, send(g.WithCall(t.Context(), costs(20))))
					}
					require.Equal(t, row.read, read)
					start := time.Now()
					paid(t, g, 10)
					require.InDelta(t, row.want, time.Since(start), float64(20*time.Millisecond))
				})
			})
		}
	}
}

// A model is what a vendor limits: in each period, by its own clock, so many requests and tokens. A call counts from its arrival on at what
// it really costs.
type model struct {
	requests, tokens int64
	per              time.Duration

	mu             sync.Mutex
	begun          time.Time
	at             []time.Time // of the calls in the last period that were not refused
	cost           []int64
	calls, refused int64
	used           int64 // tokens after the first period
}

func (m *model) call(cost int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	now, sum := time.Now(), cost
	for len(m.at) > 0 && now.Sub(m.at[0]) >= m.per {
		m.at, m.cost = m.at[1:], m.cost[1:]
	}
	for _, n := range m.cost {
		sum += n
	}
	if m.calls++; sum > m.tokens || int64(len(m.at)) >= m.requests {
		m.refused++
		return refusal{m.per / 60}
	}
	m.at, m.cost = append(m.at, now), append(m.cost, cost)
	if now.Sub(m.begun) >= m.per {
		m.used += cost
	}
	return nil
}

// A tokenLoad is more calls than a vendor permits.
type tokenLoad struct {
	least, most int64   // tokens of a call
	low, high   float64 // the estimate, as a part of that
	burst       int64   // the highest estimate
	reserve     int64   // by how much N is lower than what the vendor permits
	settled     bool
	answer      time.Duration // on average
}

// run makes the calls for two models and so many periods. It returns the share of the calls that were refused, and that of the tokens that
// were used.
func (l tokenLoad) run(t *testing.T, open func(cfg gate.Config) []*gate.Gate, tokens int64, per time.Duration, periods int) (refused, used float64) {
	t.Helper()
	gates := open(gate.Config{Limits: []gate.Limit{
		{Name: "requests", N: 500, Per: per, Key: gate.ByCall},
		{Name: "tokens", N: tokens - l.reserve, Per: per, Burst: l.burst, Key: gate.ByCall},
	}})
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(periods)*per)
	defer cancel()
	above := gate.Call{Keys: map[string]string{"tokens": "large"}, Costs: map[string]int64{"tokens": l.burst + 1}}
	require.ErrorIs(t, do(ctx, gates[0], above, 0), core.ErrConfig, "it could never be sent")
	var group sync.WaitGroup
	models := map[string]*model{"small": {}, "large": {}}
	for name, m := range models {
		m.requests, m.tokens, m.per, m.begun = 500, tokens, per, time.Now()
		for i := range 40 {
			random, g := rand.New(rand.NewPCG(uint64(i), uint64(len(name)))), gates[i%len(gates)] //nolint:gosec // a test
			group.Go(func() {
				for ctx.Err() == nil {
					cost := l.least + random.Int64N(l.most-l.least+1)
					estimate := min(l.burst, int64(float64(cost)*(l.low+random.Float64()*(l.high-l.low))))
					call := gate.Call{Keys: map[string]string{"requests": name, "tokens": name}, Costs: map[string]int64{"tokens": estimate}}
					err := g.Do(ctx, call, func(ctx context.Context) error {
						time.Sleep(time.Duration(random.Int64N(int64(20 * time.Millisecond)))) // to the vendor
						if err := m.call(cost); err != nil {
							return err
						}
						time.Sleep(l.answer/4 + time.Duration(random.Int64N(int64(l.answer)*3/2)))
						if l.settled {
							return g.Settle(ctx, actual(cost))
						}
						return nil
					})
					if errors.Is(err, gate.ErrLimited) {
						<-ctx.Done() // it comes before the slot
					} else if err != nil && ctx.Err() == nil {
						t.Error(err)
					}
				}
			})
		}
	}
	group.Wait()
	calls := 0.0
	for _, m := range models {
		calls, refused = calls+float64(m.calls), refused+float64(m.refused)
		used += float64(m.used) / float64(tokens) / float64(periods-1) / float64(len(models))
	}
	t.Logf("%.2f %% of %v calls were refused, %.1f %% of the tokens used", 100*refused/calls, calls, 100*used)
	return refused / calls, used
}

// A vendor with 500 requests and 30,000 tokens a minute for each model refuses next to nothing, and most of its tokens are used.
func TestTokens(t *testing.T) {
	t.Parallel()
	const answer = 4 * time.Second
	for name, row := range map[string]struct {
		load    tokenLoad
		refused float64     // at most
		used    float64     // at least
		periods map[int]int // by the number of processes
	}{
		"exact":                     {tokenLoad{50, 1500, 1, 1, 1500, 0, false, answer}, 0, 0.90, map[int]int{1: 10, 4: 3}},
		"half to one and a half":    {tokenLoad{50, 1500, 0.5, 1.5, 1500, 1000, true, answer}, 0.01, 0.85, map[int]int{1: 20, 4: 3}},
		"without a reserve":         {tokenLoad{50, 1500, 0.5, 1.5, 1500, 0, true, answer}, 0.02, 0.88, map[int]int{1: 20}},
		"once to twice":             {tokenLoad{50, 750, 1, 2, 1500, 0, true, answer}, 0, 0.80, map[int]int{1: 10}},
		"once to twice, more burst": {tokenLoad{50, 750, 1, 2, 3000, 0, true, answer}, 0, 0.80, map[int]int{1: 10}},
		"not settled":               {tokenLoad{50, 750, 1, 2, 1500, 0, false, answer}, 0, 0.60, map[int]int{1: 10}},
		"a third of the tokens":     {tokenLoad{10_000, 10_000, 1, 1, 10_000, 0, false, answer}, 0, 0.66, map[int]int{1: 10, 4: 3}},
	} {
		for processes, periods := range row.periods {
			t.Run(fmt.Sprint(name, ", ", processes), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					var gates []*gate.Gate
					defer func() { closeAll(gates) }()
					refused, used := row.load.run(t, func(cfg gate.Config) []*gate.Gate {
						if gates = []*gate.Gate{core.Must(gate.New(cfg))}; processes > 1 {
							gates, _ = gatesOf(t, newRedis(10*time.Millisecond), processes, cfg)
						}
						return gates
					}, 30_000, time.Minute, periods)
					require.LessOrEqual(t, refused, row.refused)
					require.GreaterOrEqual(t, used, row.used)
				})
			})
		}
	}
}
