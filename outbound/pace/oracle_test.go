package pace_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/ratelimittest"
	"github.com/gresil/gresil/outbound/pace"
)

var (
	seeds    = flag.Uint64("pace.seeds", 20, "number of random runs") //nolint:gochecknoglobals // a flag
	fromSeed = flag.Uint64("pace.seed", 0, "the first of them")       //nolint:gochecknoglobals // a flag
)

// A process shares a store with others. It stands still at times: its requests, its replies and its
// calls wait until then.
type process struct {
	ratelimit.Store
	*chance
	slack time.Duration // the longest reply is twice as long, and rare
	still time.Time     // guarded by chance.mu
}

type processTable struct {
	limits.Table
	p *process
}

// A chance is a source of random numbers for all goroutines.
type chance struct {
	mu      sync.Mutex
	random  *rand.Rand
	hostile bool // functions of the user and of the store panic or end their goroutines
}

// misbehave stands for a function that does not return.
func (c *chance) misbehave() {
	if c.hostile {
		switch c.upTo(200) {
		case 0:
			panic("told")
		case 1:
			runtime.Goexit()
		}
	}
}

func (c *chance) upTo(n int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.random.Int64N(n + 1)
}

func (c *chance) one(in int64) bool { return c.upTo(in-1) == 0 }

func (c *chance) sleep(most time.Duration) { time.Sleep(time.Duration(c.upTo(int64(most)))) }

func (p *process) Open(name string) (limits.Table, error) {
	t, err := p.Store.Open(name)
	return &processTable{t, p}, err
}

func (t *processTable) Apply(ctx context.Context, key string, plan *limits.Plan, op limits.Op) (limits.Result, error) {
	way := t.p.slack / 8
	if t.p.one(40) {
		way = t.p.slack
	}
	t.p.sleep(way)
	t.p.stand()
	r, err := t.Table.Apply(ctx, key, plan, op)
	t.p.misbehave()
	t.p.sleep(way)
	t.p.stand()
	if t.p.one(100) {
		return limits.Result{}, errDown // the reply is lost
	}
	return r, err
}

// stand waits while the process stands still.
func (p *process) stand() {
	p.mu.Lock()
	still := p.still
	p.mu.Unlock()
	time.Sleep(time.Until(still))
}

// TestRandomRunsKeepEveryCap: processes with random rates over one store. Calls have costs and sub-keys,
// leave, and are delayed as the promise allows; processes stand still, start and close; replies are late
// or lost. In every second run, functions of the user and of the store panic or end their goroutines.
func TestRandomRunsKeepEveryCap(t *testing.T) {
	t.Parallel()
	for seed := *fromSeed; seed < *fromSeed+*seeds; seed++ {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { randomRun(t, seed) })
		})
	}
}

func randomConfig(c *chance) pace.Config {
	per := []time.Duration{300 * time.Millisecond, time.Second, 1000000007}[c.upTo(2)]
	first := pace.Rate{Calls: 1 + c.upTo([]int64{2, 20, 100}[c.upTo(2)]), Per: per}
	cfg := pace.Config{Name: "vendor", Mode: pace.Mode(c.upTo(2)), Slack: time.Duration(1+c.upTo(80)) * time.Millisecond, Skew: time.Duration(c.upTo(40)) * time.Millisecond} //nolint:gosec // small
	cfg.Rates = []pace.Rate{first}
	if c.one(2) {
		second := pace.Rate{Calls: first.Calls * (1 + c.upTo(4)), Per: per * time.Duration(2+c.upTo(5))}
		cfg.Rates = append(cfg.Rates, second)
	}
	if cfg.Mode == pace.Rolling {
		for i := range cfg.Rates {
			cfg.Rates[i].Burst = c.upTo(cfg.Rates[i].Calls)
		}
	}
	if c.one(2) {
		cfg.MaxWait = time.Duration(1 + c.upTo(int64(2*per)))
	}
	if c.one(2) {
		cfg.MaxQueue = int(c.upTo(6)) - 1
	}
	cfg.Fair = func(context.Context) string { c.misbehave(); return strconv.FormatInt(c.upTo(3), 10) }
	hook := func(context.Context, pace.Info) { c.misbehave() }
	cfg.Hooks = pace.Hooks{Waited: hook, Stale: hook, Rejected: hook, StoreFailed: hook, StoreRecovered: hook}
	return cfg
}

func randomRun(t *testing.T, seed uint64) {
	t.Helper()
	c := &chance{random: rand.New(rand.NewPCG(seed, 11)), hostile: seed%2 == 1} //nolint:gosec // a test
	cfg, shared, start := randomConfig(c), &ratelimittest.Memory{}, time.Now()
	const lasts = 12 * time.Second
	cost := cfg.Rates[0].Calls
	for _, r := range cfg.Rates {
		if cfg.Mode == pace.Rolling {
			cost = min(cost, max(1, r.Burst))
		}
	}
	if c.one(2) {
		cost = 1
	}
	changes := c.one(4) // of the spacing
	time.Sleep(time.Duration(c.upTo(int64(time.Hour))))
	start = time.Now()
	var v vendor
	var wg sync.WaitGroup
	for range 1 + c.upTo(3) {
		p := &process{Store: shared, chance: c, slack: cfg.Slack}
		own := cfg
		own.Store = p
		pacer := core.Must(pace.New(own))
		wg.Go(func() {
			for time.Since(start) < lasts {
				c.sleep(5 * time.Second)
				c.mu.Lock()
				p.still = time.Now().Add(time.Duration(c.random.Int64N(int64(4 * cfg.Slack))))
				c.mu.Unlock()
				if changes {
					own.Slack = cfg.Slack / time.Duration(1+c.upTo(1))
					require.NoError(t, pacer.SetConfig(own))
				}
			}
		})
		var calls sync.WaitGroup
		for range 1 + c.upTo(10) {
			calls.Go(func() {
				for time.Since(start) < lasts {
					var one sync.WaitGroup // the call can end its goroutine
					one.Go(func() { p.call(t, pacer, &v, cfg, 1+c.upTo(cost-1)) })
					one.Wait()
				}
			})
		}
		wg.Go(func() {
			calls.Wait()
			s := pacer.Stats()
			require.Zero(t, s.Waiting+s.Reserved, "%+v", s)
			require.NoError(t, pacer.Close())
		})
	}
	wg.Wait()
	what := fmt.Sprintf("%+v", cfg)
	require.NotZero(t, v.total(), what)
	if changes { // no cap holds over a change, and no call hangs
		return
	}
	for _, r := range cfg.Rates {
		if cfg.Mode == pace.FixedWindow {
			for _, skew := range []time.Duration{-cfg.Skew, 0, cfg.Skew} {
				require.LessOrEqual(t, v.mostFixed(r.Per, skew), r.Calls, what)
			}
		} else {
			require.LessOrEqual(t, v.most(r.Per), r.Calls, what)
		}
	}
}

// call makes one call in one of several ways.
func (p *process) call(t *testing.T, pacer *pace.Pacer, v *vendor, cfg pace.Config, cost int64) {
	t.Helper()
	if p.hostile {
		defer func() { _ = recover() }()
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if p.one(3) {
		ctx, cancel = context.WithTimeout(ctx, time.Duration(p.upTo(int64(time.Second))))
		defer cancel()
	} else if p.one(3) {
		time.AfterFunc(time.Duration(p.upTo(int64(time.Second))), cancel)
	}
	get := pacer.Wait
	if p.one(10) {
		get = pacer.Reserve
	}
	permit, err := get(ctx, "k", cost)
	if err != nil {
		p.sleep(50 * time.Millisecond)
		return
	}
	if permit.Cost < cost {
		t.Errorf("a permit of %d for a call of %d", permit.Cost, cost)
	}
	time.Sleep(time.Until(permit.At))
	if p.one(3) {
		p.sleep(cfg.Slack)
	} else if p.one(3) {
		time.Sleep(time.Until(permit.NotAfter))
	}
	p.stand()
	if permit.Stale() {
		return
	}
	wire := cfg.Skew
	if cfg.Mode == pace.FixedWindow {
		wire = cfg.Slack
	}
	if p.one(3) {
		time.Sleep(wire)
	} else {
		p.sleep(wire)
	}
	v.call(cost)
}
