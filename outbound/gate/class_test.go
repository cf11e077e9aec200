package gate_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/registry"
	"github.com/gresil/gresil/outbound/gate"
)

// While 2,000 background calls wait, interactive calls wait for few slots or places, and background calls get the rest. If interactive
// calls alone could fill the limit, background calls get their part.
func TestClasses(t *testing.T) { testClasses(t, 3*time.Second, false) }

// testClasses makes calls for a while. The rows of all are for a soak.
func testClasses(t *testing.T, while time.Duration, all bool) {
	t.Helper()
	t.Parallel()
	slots, places := gate.Config{Limits: perSecond(50)}, gate.Config{InFlight: 5}
	const near, far = 2 * time.Millisecond, 20 * time.Millisecond
	for name, row := range map[string]struct {
		cfg        gate.Config
		trip       time.Duration // to the Store of four processes; 0: one process
		mixed      bool          // each process has calls of both classes; otherwise only the first has interactive calls, and no others
		fill       bool          // interactive calls are as many as can be made, and otherwise 20 a second
		background float64       // a second, at least
		all        bool
	}{
		"slots":              {cfg: slots, background: 26},
		"slots, full":        {cfg: slots, fill: true, background: 5},
		"places":             {cfg: places, background: 28},
		"places, full":       {cfg: places, fill: true, background: 5},
		"four":               {cfg: slots, trip: near, background: 26},
		"four, full":         {cfg: slots, trip: near, fill: true, background: 5},
		"four, mixed":        {cfg: slots, trip: near, mixed: true, background: 26, all: true},
		"four, mixed, full":  {cfg: slots, trip: near, mixed: true, fill: true, background: 5, all: true},
		"four, far":          {cfg: slots, trip: far, background: 26, all: true},
		"four, far, full":    {cfg: slots, trip: far, fill: true, background: 5, all: true},
		"four, places":       {cfg: places, trip: near, background: 26},
		"four, places, full": {cfg: places, trip: near, fill: true, background: 4.5, all: true},
	} {
		if row.all && !all {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				redis, gates := newRedis(row.trip), []*gate.Gate{nil}
				if row.trip > 0 {
					gates, _ = gatesOf(t, redis, 4, row.cfg)
				} else {
					gates[0] = core.Must(gate.New(row.cfg))
				}
				defer closeAll(gates)
				from, to := gates[:1], gates[len(gates)/4:] // of interactive, of background calls
				if row.mixed || row.trip == 0 {
					from, to = gates, gates
				}
				background, waits := classes(t, from, to, row.fill, while)
				asked := 0 // by the last process
				for _, l := range redis.log() {
					if l == "3: pass" {
						asked++
					}
				}
				p99 := waits[len(waits)*99/100]
				t.Logf("a second: %.1f interactive calls; %.1f background calls; p99 %v", float64(len(waits))/while.Seconds(), background, p99)
				require.GreaterOrEqual(t, background, row.background)
				if most := 100 * time.Millisecond; !row.fill {
					if row.cfg.InFlight > 0 {
						most += 4 * row.trip // a call takes that long; then the Store hears of its end, and gives the place to the next
					}
					require.LessOrEqual(t, p99, most)
				} else if !row.mixed {
					require.LessOrEqual(t, asked, int(50*(while.Seconds()+1))) // once for each slot
				}
			})
		})
	}
}

// classes makes calls of 100 ms, 2,000 background calls at once. It returns how many of these are made in a second, and the sorted waits of
// the interactive calls.
func classes(t *testing.T, from, to []*gate.Gate, fill bool, while time.Duration) (background float64, waits []time.Duration) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	var c counter
	group.Go(func() { loop(gate.Background(ctx), t, to, 2000/len(to), func(int) { c.call(100 * time.Millisecond) }) })
	time.Sleep(time.Second)
	begun := time.Now()
	time.AfterFunc(while, cancel) // a deadline would refuse calls
	var mu sync.Mutex
	waited := func(since time.Time) {
		mu.Lock()
		waits = append(waits, time.Since(since))
		mu.Unlock()
		time.Sleep(100 * time.Millisecond)
	}
	if fill {
		loop(ctx, t, from, 100/len(from), func(int) { waited(begun) })
	}
	for i := 0; ctx.Err() == nil; i++ {
		group.Go(func() {
			start := time.Now()
			_ = from[i%len(from)].Do(ctx, gate.Call{}, func(context.Context) error { waited(start); return nil })
		})
		time.Sleep(50 * time.Millisecond)
	}
	group.Wait()
	slices.Sort(waits)
	n := 0
	for _, at := range c.begun {
		if at.After(begun) && at.Before(begun.Add(while)) {
			n++
		}
	}
	return float64(n) / while.Seconds(), waits
}

// busy makes n calls at a time, until stop, which returns how many were made.
func busy(ctx context.Context, t tester, g *gate.Gate, n int, call gate.Call, takes time.Duration) (stop func() int64) {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	var made atomic.Int64
	for range n {
		group.Go(func() {
			var err error
			for err = do(ctx, g, call, takes); err == nil; err = do(ctx, g, call, takes) {
				made.Add(1)
			}
			require.ErrorIs(t, err, context.Canceled)
		})
	}
	return func() int64 {
		cancel()
		group.Wait()
		return made.Load()
	}
}

// An order has the classes of calls as they are made.
type order struct {
	tester

	do    func(ctx context.Context, fn func(ctx context.Context) error) error
	group sync.WaitGroup
	mu    sync.Mutex
	made  string
}

// wait has n calls of a class wait, one after the other. Each of them takes 10 ms, or what fn takes.
func (o *order) wait(ctx context.Context, n int, class string, fn func() error) {
	if class == "b" {
		ctx = gate.Background(ctx)
	}
	do := o.do
	for range n {
		o.group.Go(func() {
			_ = do(ctx, func(context.Context) error {
				o.mu.Lock()
				o.made += class
				o.mu.Unlock()
				if fn != nil {
					return fn()
				}
				time.Sleep(10 * time.Millisecond)
				return nil
			})
		})
		time.Sleep(time.Microsecond)
	}
}

// After eight interactive calls, the first of which is not in the text, a background call is next, whatever they wait for, and whoever has given up.
func TestClassOrder(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		cfg   func() gate.Config
		call  gate.Call
		pool  bool
		other gate.Call // of 60 calls that are made before
		leave int       // so many background calls, before the others of their class
	}{
		"slots":       {cfg: func() gate.Config { return gate.Config{Limits: perSecond(1)} }},
		"places":      {cfg: func() gate.Config { return gate.Config{InFlight: 1} }},
		"tokens":      {cfg: func() gate.Config { return gate.Config{Limiter: rate.NewLimiter(1, 1)} }},
		"connections": {cfg: func() gate.Config { return gate.Config{} }, pool: true},
		"slots of a key": {
			cfg: func() gate.Config {
				return gate.Config{Limits: []gate.Limit{{Name: "account", Key: gate.ByCall, N: 100, Per: time.Second}, {N: 1000, Per: time.Second}}}
			},
			call: account("a"), other: account("b"),
		},
		"others give up": {cfg: func() gate.Config { return gate.Config{Limits: perSecond(1)} }, leave: 50},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, store := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					cfg := row.cfg()
					if store {
						cfg.Name, cfg.Store = "ads", newRedis(2*time.Millisecond).process(0)
					}
					g := core.Must(gate.New(cfg))
					defer closeAll([]*gate.Gate{g})
					o := &order{tester: tester{t}, do: func(ctx context.Context, fn func(context.Context) error) error { return g.Do(ctx, row.call, fn) }}
					if row.pool {
						dial := func(context.Context, int) (int, error) { return 0, nil }
						p := core.Must(gate.NewPool(g, gate.PoolConfig[int, int]{Capacity: 1, Dial: dial}))
						o.do = func(ctx context.Context, fn func(context.Context) error) error {
							_, err := gate.Do(ctx, p, 0, func(ctx context.Context, _ int) (int, error) { return 0, fn(ctx) })
							return err
						}
					}
					for range 60 * len(row.other.Keys) {
						require.NoError(t, do(t.Context(), g, row.other, 0))
					}
					o.wait(t.Context(), 1, "", func() error { time.Sleep(50 * time.Millisecond); return nil })
					synctest.Wait()
					leaving, leave := context.WithCancel(t.Context())
					o.wait(leaving, row.leave, "b", nil)
					o.wait(t.Context(), 3, "b", nil)
					o.wait(t.Context(), 20, "i", nil)
					leave()
					o.group.Wait()
					parts := strings.Split(o.made, "b")
					require.Len(t, parts, 4)
					require.Len(t, strings.Join(parts, ""), 20)
					for _, part := range parts[:2] { // it is not known of the first calls that background calls wait
						require.True(t, 7 <= len(part) && len(part) <= 9, "with a store: %v: %v", store, o.made)
					}
				})
			}
		})
	}
}

// The probe after a hold is the oldest interactive call, though a background call was next when the hold began, or waits in another
// process.
func TestProbeIsInteractive(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		cfg  gate.Config
		next bool // the hold begins when eight interactive calls have passed
	}{
		"waiting":          {},
		"next, places":     {cfg: gate.Config{InFlight: 1}, next: true},
		"next, slots":      {cfg: gate.Config{Limits: perSecond(1)}, next: true},
		"next, two limits": {cfg: gate.Config{Limits: append(perSecond(1), gate.Limit{Name: "holds"})}, next: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			row.cfg.MaxAttempts = 1
			withStoreAndWithout(t, row.cfg, func(t tester, g *gate.Gate) {
				o := &order{tester: t, do: func(ctx context.Context, fn func(context.Context) error) error { return g.Do(ctx, gate.Call{}, fn) }}
				o.wait(t.Context(), 1, "", func() error { time.Sleep(50 * time.Millisecond); return nil })
				synctest.Wait()
				if !row.next {
					refused(t, g, gate.Call{}, 0, time.Minute)
					synctest.Wait()
				}
				o.wait(t.Context(), 3, "b", nil)
				if row.next {
					o.wait(t.Context(), 6, "i", nil)
					o.wait(t.Context(), 1, "", func() error { time.Sleep(time.Millisecond); return refusal{time.Minute} })
				}
				o.wait(t.Context(), 1, "i", func() error { time.Sleep(5 * time.Second); return nil })
				o.wait(t.Context(), 1, "j", nil)
				o.group.Wait()
				want := "i" // and not j
				if row.next {
					want = "iiiiii" + want
				}
				require.Equal(t, want, o.made[:len(want)])
				require.Len(t, o.made, len(want)+4)
			})
		})
	}
	for range 5 {
		synctest.Test(t, func(t *testing.T) {
			gates, _ := gatesOf(t, newRedis(2*time.Millisecond), 2, gate.Config{})
			defer closeAll(gates)
			o := &order{tester: tester{t}}
			of := func(i int) func(ctx context.Context, fn func(context.Context) error) error {
				return func(ctx context.Context, fn func(context.Context) error) error {
					return gates[i].Do(ctx, gate.Call{}, fn)
				}
			}
			refused(t, gates[0], gate.Call{}, 0, time.Minute)
			time.Sleep(time.Second)
			o.do = of(1)
			o.wait(t.Context(), 3, "b", nil)
			o.do = of(0)
			o.wait(t.Context(), 1, "i", nil)
			o.group.Wait()
			require.Equal(t, "ibbb", o.made)
		})
	}
}

// A call that is refused, and the next page of a stream, keep their class.
func TestClassIsKept(t *testing.T) {
	t.Parallel()
	withStoreAndWithout(t, gate.Config{InFlight: 1}, func(t tester, g *gate.Gate) {
		o := &order{tester: t, do: func(ctx context.Context, fn func(context.Context) error) error { return g.Do(ctx, gate.Call{}, fn) }}
		again := false
		o.wait(t.Context(), 1, "b", func() error {
			time.Sleep(10 * time.Millisecond)
			if again {
				return nil
			}
			again = true
			return refusal{time.Second}
		})
		synctest.Wait()
		o.wait(t.Context(), 3, "i", nil)
		o.group.Wait()
		time.Sleep(time.Second) // the end of the last call has arrived
		p := core.Must(gate.NewPool(g, gate.PoolConfig[int, int]{Dial: func(context.Context, int) (int, error) { return 0, nil }}))
		o.group.Go(func() {
			for _, err := range gate.Stream(gate.Background(t.Context()), p, 0, 1, func(_ context.Context, _, at int) ([]int, int, error) {
				o.mu.Lock()
				o.made += "p"
				o.mu.Unlock()
				time.Sleep(10 * time.Millisecond)
				return nil, (at + 1) % 4, nil
			}) {
				require.NoError(t, err)
			}
		})
		time.Sleep(5 * time.Millisecond)
		o.wait(t.Context(), 3, "i", nil)
		o.group.Wait()
		require.Equal(t, "biiibpiiipp", o.made)
	})
}

// A call is not refused because of calls of the other class that wait.
func TestClassEstimate(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]func() gate.Config{
		"slots":  func() gate.Config { return gate.Config{Limits: perSecond(10), MaxQueue: 100} },
		"tokens": func() gate.Config { return gate.Config{Limiter: rate.NewLimiter(10, 1), MaxQueue: 100} },
		"places": func() gate.Config { return gate.Config{InFlight: 1, Limiter: rate.NewLimiter(10, 1), MaxQueue: 100} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, background := range []bool{false, true} { // of the calls that wait
				for _, store := range []bool{false, true} {
					synctest.Test(t, func(t *testing.T) {
						cfg := cfg()
						if store {
							cfg.Name, cfg.Store = "ads", newRedis(2*time.Millisecond).process(0)
						}
						g := core.Must(gate.New(cfg))
						defer closeAll([]*gate.Gate{g})
						waiting, stop := context.WithCancel(t.Context())
						one, other := waiting, gate.Background(waiting)
						if background {
							one, other = other, one
						}
						for range 100 {
							go func() { _ = do(one, g, gate.Call{}, 100*time.Millisecond) }()
						}
						time.Sleep(500 * time.Millisecond)
						go func() { _ = do(one, g, gate.Call{}, 0) }()
						for ctx, want := range map[context.Context]error{one: gate.ErrLimited, other: nil} {
							ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
							start := time.Now()
							require.ErrorIs(t, do(ctx, g, gate.Call{}, 0), want, "store: %v", store)
							require.True(t, want == nil || time.Since(start) == 0)
							cancel()
						}
						for range 150 {
							go func() { _ = do(one, g, gate.Call{}, 0) }()
						}
						synctest.Wait()
						require.ErrorIs(t, do(one, g, gate.Call{}, 0), gate.ErrFull)
						_, err := g.Reserve(one, gate.Call{})
						require.ErrorIs(t, err, gate.ErrFull)
						if background {
							require.NoError(t, do(other, g, gate.Call{}, 0))
							p, err := g.Reserve(other, gate.Call{})
							require.NoError(t, err)
							p.Cancel()
						} else {
							require.ErrorIs(t, do(other, g, gate.Call{}, 0), gate.ErrFull)
						}
						stop()
						synctest.Wait()
					})
				}
			}
		})
	}
}

// An interactive call that costs much gets its slot, though cheap background calls of another process could have theirs before. These soon
// go on if it gives up.
func TestCostlyInteractiveCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limit := gate.Limit{Name: "tokens", N: 100, Per: 4 * time.Second, Burst: 50}
		gates, _ := gatesOf(t, newRedis(2*time.Millisecond), 2, gate.Config{Limits: []gate.Limit{limit}})
		defer closeAll(gates)
		ctx, cancel := context.WithCancel(t.Context())
		var c counter
		var group sync.WaitGroup
		group.Go(func() { loop(gate.Background(ctx), t, gates[1:], 100, func(int) { c.call(0) }) })
		time.Sleep(10 * time.Second)
		costly, start := gate.Call{Costs: map[string]int64{"tokens": 50}}, time.Now()
		require.NoError(t, do(ctx, gates[0], costly, 0))
		require.LessOrEqual(t, time.Since(start), 5*time.Second)
		time.Sleep(10 * time.Second)
		leaving, leave := context.WithCancel(ctx)
		time.AfterFunc(time.Second, leave)
		require.ErrorIs(t, do(leaving, gates[0], costly, 0), context.Canceled)
		left := time.Now()
		time.Sleep(time.Second)
		cancel()
		group.Wait()
		first := slices.IndexFunc(c.begun, left.Before)
		require.Less(t, c.begun[first].Sub(left), 700*time.Millisecond)
	})
}

// A background call that costs much gets its slots, though cheap interactive calls of another process could fill the limit.
func TestCostlyBackgroundCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limit := gate.Limit{Name: "tokens", N: 1000, Per: 2 * time.Second, Burst: 100}
		gates, _ := gatesOf(t, newRedis(2*time.Millisecond), 2, gate.Config{Limits: []gate.Limit{limit}})
		defer closeAll(gates)
		stop := busy(t.Context(), tester{t}, gates[0], 50, costs(10), 0)
		time.Sleep(2 * time.Second)
		for range 5 {
			start := time.Now()
			require.NoError(t, do(gate.Background(t.Context()), gates[1], costs(100), 0))
			require.Less(t, time.Since(start), 2*time.Second)
		}
		stop()
	})
}

// Until its slot, such a call has no place: other calls are made.
func TestCostlyBackgroundCallHoldsNoPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limit := gate.Limit{Name: "tokens", N: 1000, Per: 1000 * time.Second, Burst: 200}
		gates, _ := gatesOf(t, newRedis(2*time.Millisecond), 2, gate.Config{Limits: []gate.Limit{limit}, InFlight: 1})
		defer closeAll(gates)
		stop := busy(t.Context(), tester{t}, gates[0], 20, costs(10), 0)
		time.Sleep(400 * time.Second)
		var done atomic.Bool
		go func() {
			done.Store(do(gate.Background(t.Context()), gates[1], costs(100), 0) == nil)
		}()
		for range 300 {
			start := time.Now()
			require.NoError(t, do(t.Context(), gates[1], costs(0), 0))
			require.Less(t, time.Since(start), 2*time.Second)
			time.Sleep(time.Second)
		}
		require.True(t, done.Load())
		stop()
	})
}

// It keeps its turn while it waits for a place, which interactive calls without cost fill.
func TestCostlyBackgroundCallWithoutPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limit := gate.Limit{Name: "tokens", N: 300, Per: 100 * time.Second, Burst: 101}
		gates, _ := gatesOf(t, newRedis(2*time.Millisecond), 2, gate.Config{Limits: []gate.Limit{limit}, InFlight: 2})
		defer closeAll(gates)
		free := busy(t.Context(), tester{t}, gates[0], 4, costs(0), 500*time.Millisecond)
		others := busy(t.Context(), tester{t}, gates[0], 5, costs(10), 0)
		time.Sleep(100 * time.Second)
		start := time.Now()
		ctx, cancel := context.WithTimeout(gate.Background(t.Context()), time.Hour)
		defer cancel()
		require.NoError(t, do(ctx, gates[1], costs(100), 0))
		require.Less(t, time.Since(start), 150*time.Second)
		free()
		others()
	})
}

// A key whose hold is over gets its probe, though only background calls need it, and interactive calls of other keys fill the places.
func TestProbeOfBackgroundCalls(t *testing.T) {
	t.Parallel()
	withStoreAndWithout(t, gate.Config{InFlight: 2, Limits: []gate.Limit{{Name: "account", Key: gate.ByCall}}}, func(t tester, g *gate.Gate) {
		refused(t, g, account("b"), 0, time.Second)
		stop := busy(t.Context(), t, g, 20, account("a"), 100*time.Millisecond)
		time.Sleep(3 * time.Second)
		for range 3 {
			within, end := context.WithTimeout(gate.Background(t.Context()), 10*time.Second)
			require.NoError(t, do(within, g, account("b"), 0))
			end()
		}
		stop()
	})
}

// A background call with a deadline is not refused because interactive calls wait: they can give up.
func TestDeadlineOfBackgroundCall(t *testing.T) {
	t.Parallel()
	for name, n := range map[string]int{"one process": 1, "two processes": 2} {
		synctest.Test(t, func(t *testing.T) {
			limit := gate.Limit{Name: "tokens", N: 1000, Per: 100 * time.Second, Burst: 500}
			gates, _ := gatesOf(t, newRedis(2*time.Millisecond), n, gate.Config{Limits: []gate.Limit{limit}})
			defer closeAll(gates)
			require.NoError(t, do(t.Context(), gates[0], costs(500), 0))
			first, leave := context.WithCancel(t.Context())
			defer leave()
			for range 2 {
				go func() { _ = do(first, gates[0], costs(500), 0) }()
			}
			synctest.Wait()
			time.AfterFunc(5*time.Second, leave)
			ctx, cancel := context.WithTimeout(gate.Background(t.Context()), 10*time.Second)
			defer cancel()
			require.NoError(t, do(ctx, gates[n-1], costs(10), 0), name)
		})
	}
}

// Nor is it refused at once if it gives way for longer than its deadline.
func TestBackgroundCallGivesWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limit := gate.Limit{Name: "tokens", N: 1000, Per: 100 * time.Second, Burst: 500}
		gates, _ := gatesOf(t, newRedis(2*time.Millisecond), 2, gate.Config{Limits: []gate.Limit{limit}})
		defer closeAll(gates)
		require.NoError(t, do(gate.Background(t.Context()), gates[1], costs(1), 0))
		require.NoError(t, do(t.Context(), gates[0], costs(400), 0))
		first, leave := context.WithCancel(t.Context())
		defer leave()
		go func() { _ = do(first, gates[0], costs(500), 0) }()
		time.Sleep(10 * time.Millisecond)
		start := time.Now()
		ctx, cancel := context.WithTimeout(gate.Background(t.Context()), 300*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, do(ctx, gates[1], costs(1), 0), context.DeadlineExceeded)
		require.Equal(t, 300*time.Millisecond, time.Since(start))
	})
}

// Interactive calls that the Store refuses and that do not wait leave the slots to background calls of other processes.
func TestRefusedInteractiveCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gates, _ := gatesOf(t, newRedis(2*time.Millisecond), 2, gate.Config{Limits: perSecond(50)})
		defer closeAll(gates)
		cfg := gates[0].Config()
		cfg.MaxWait = -1
		require.NoError(t, gates[0].SetConfig(cfg))
		ctx, cancel := context.WithCancel(t.Context())
		var c counter
		var group sync.WaitGroup
		group.Go(func() { loop(gate.Background(ctx), t, gates[1:], 100, func(int) { c.call(0) }) })
		passed := 0
		for range 100 {
			time.Sleep(100 * time.Millisecond)
			if do(t.Context(), gates[0], gate.Call{}, 0) == nil {
				passed++
			}
		}
		cancel()
		group.Wait()
		require.Greater(t, len(c.begun)+passed, 450, "%d passed", passed)
	})
}

// Background calls that cost nothing take no turn of those that need slots.
func TestBackgroundCallsWithoutCost(t *testing.T) {
	t.Parallel()
	bubble(t, gate.Config{Limits: []gate.Limit{{Name: "account", N: 20, Per: time.Second, Key: gate.ByCall}}}, func(t tester, g *gate.Gate) {
		free := account("a")
		free.Costs = map[string]int64{"account": 0}
		interactive := busy(t.Context(), t, g, 50, account("a"), time.Millisecond)
		without := busy(gate.Background(t.Context()), t, g, 5, free, 2*time.Millisecond)
		background := busy(gate.Background(t.Context()), t, g, 1, account("a"), time.Millisecond)
		time.Sleep(5 * time.Second)
		others, made := interactive(), background()
		without()
		require.GreaterOrEqual(t, 10*made, made+others)
	})
}

// Background calls soon have all slots if the process of the interactive calls is killed, or these give up.
func TestInteractiveProcessIsGone(t *testing.T) {
	t.Parallel()
	for name, killed := range map[string]bool{"killed": true, "given up": false} {
		synctest.Test(t, func(t *testing.T) {
			gates, each := gatesOf(t, newRedis(2*time.Millisecond), 2, gate.Config{Limits: perSecond(50)})
			defer closeAll(gates)
			var c counter
			background, cancel := context.WithCancel(gate.Background(t.Context()))
			interactive, leave := context.WithCancel(t.Context())
			var group sync.WaitGroup
			group.Go(func() { loop(background, t, gates[1:], 100, func(int) { c.call(0) }) })
			group.Go(func() { loop(interactive, t, gates[:1], 100, func(int) {}) })
			time.Sleep(2 * time.Second)
			if killed {
				each[0].cut.Store(true)
			} else {
				leave()
			}
			time.Sleep(500 * time.Millisecond)
			begun := time.Now()
			time.Sleep(2 * time.Second)
			leave()
			cancel()
			group.Wait()
			n := 0
			for _, at := range c.begun {
				if at.After(begun) {
					n++
				}
			}
			require.GreaterOrEqual(t, n, 90, name)
		})
	}
}

// A background call that does not wait is refused while interactive calls of another process wait.
func TestYieldWithoutWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gates, _ := gatesOf(t, newRedis(2*time.Millisecond), 3, gate.Config{Limits: perSecond(1)})
		defer closeAll(gates)
		cfg := gates[2].Config()
		cfg.MaxWait = -1
		require.NoError(t, gates[2].SetConfig(cfg))
		o := &order{tester: tester{t}}
		for i := range 2 {
			o.do = func(ctx context.Context, fn func(context.Context) error) error {
				return gates[i].Do(ctx, gate.Call{}, fn)
			}
			o.wait(t.Context(), 4, "bi"[1-i:2-i], nil)
			time.Sleep(100 * time.Millisecond)
		}
		n := 0
		for range 30 {
			time.Sleep(100 * time.Millisecond)
			start := time.Now()
			if do(gate.Background(t.Context()), gates[2], gate.Call{}, 0) == nil {
				n++
			}
			require.LessOrEqual(t, time.Since(start), 10*time.Millisecond)
		}
		require.Zero(t, n)
		o.group.Wait()
	})
}

// The waits are counted by class.
func TestClassFigures(t *testing.T) {
	t.Parallel()
	r := &registry.Registry{}
	bubble(t, gate.Config{Name: "ads", Registry: (*core.Registry)(r), InFlight: 1}, func(t tester, g *gate.Gate) {
		var group sync.WaitGroup
		group.Go(func() { require.NoError(t, do(t.Context(), g, gate.Call{}, time.Minute)) })
		synctest.Wait()
		group.Go(func() { require.NoError(t, do(gate.Background(t.Context()), g, gate.Call{}, 0)) })
		group.Wait()
		e, _ := r.Get("gate", "ads")
		sums := map[string]time.Duration{}
		for _, f := range e.Source.Figures() {
			if f.Name == "wait_seconds" {
				sums[f.Labels[1]] = f.Dist.Sum
			}
		}
		require.Equal(t, map[string]time.Duration{"interactive": 0, "background": time.Minute}, sums)
	})
}

// A key whose last call has left is not looked at.
func TestLastCallLeaves(t *testing.T) {
	t.Parallel()
	bubble(t, gate.Config{Limits: []gate.Limit{{N: 1, Per: time.Minute}}}, func(t tester, g *gate.Gate) {
		require.NoError(t, do(t.Context(), g, gate.Call{}, 0))
		ctx, leave := context.WithCancel(t.Context())
		go func() { _ = do(ctx, g, gate.Call{}, 0) }()
		synctest.Wait()
		require.Equal(t, 1, g.Wakes())
		leave()
		synctest.Wait()
		require.Zero(t, g.Wakes())
	})
}

// A call does not ask the Store before the time that is known, whoever else leaves.
func TestOthersLeave(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		redis := newRedis(2 * time.Millisecond)
		gates, _ := gatesOf(t, redis, 1, gate.Config{
			Limits: []gate.Limit{{Name: "tokens", N: 100, Per: time.Hour, Burst: 10}, {Name: "user", Key: gate.ByCall}},
			Classify: func(_ *http.Response, err error) gate.Signal {
				return gate.Signal{Limited: err != nil, Limit: "user", Pause: time.Hour}
			},
		})
		defer closeAll(gates)
		held := gate.Call{Keys: map[string]string{"user": "a"}}
		refused(t, gates[0], held, 0, 0)
		go func() { _ = do(gate.Background(t.Context()), gates[0], costs(10), 0) }()
		time.Sleep(time.Second)
		asked := len(redis.log())
		for range 100 {
			ctx, leave := context.WithCancel(t.Context())
			time.AfterFunc(10*time.Millisecond, leave)
			require.ErrorIs(t, do(ctx, gates[0], held, 0), context.Canceled)
		}
		require.LessOrEqual(t, len(redis.log())-asked, 5)
	})
}

// A cheap call waits no longer for the time of a costly one of the other class, once it is before that one.
func TestFirstCallChanges(t *testing.T) {
	t.Parallel()
	cfg := gate.Config{
		Limits: []gate.Limit{{Name: "tokens", N: 100, Per: time.Hour, Burst: 10}, {Name: "user", Key: gate.ByCall}},
		Classify: func(_ *http.Response, err error) gate.Signal {
			return gate.Signal{Limited: err != nil, Limit: "user", Pause: time.Second}
		},
	}
	withStoreAndWithout(t, cfg, func(t tester, g *gate.Gate) {
		start, costly := time.Now(), gate.Call{Costs: map[string]int64{"tokens": 10}}
		var group sync.WaitGroup
		group.Go(func() {
			again, own := false, gate.Call{Keys: map[string]string{"user": "a"}}
			require.NoError(t, g.Do(gate.Background(t.Context()), own, func(context.Context) error {
				if again {
					return nil
				}
				again = true
				time.Sleep(time.Minute)
				return refusal{}
			}))
		})
		synctest.Wait()
		for range 8 {
			require.NoError(t, do(t.Context(), g, gate.Call{}, 0))
		}
		group.Go(func() { require.NoError(t, do(gate.Background(t.Context()), g, costly, 0)) })
		synctest.Wait()
		err := do(t.Context(), g, gate.Call{}, 0)
		waited := time.Since(start)
		group.Wait()
		require.NoError(t, err)
		require.Less(t, waited, 2*time.Minute)
	})
}
