package gate_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/gatestore"
	"github.com/gresil/gresil/internal/resiltest"
	"github.com/gresil/gresil/outbound/gate"
)

// gatesOf returns gates that share a store.
func gatesOf(t *testing.T, v *redisServer, n int, cfg gate.Config) (all []*gate.Gate, each []*process) {
	t.Helper()
	for i := range n {
		p := v.process(i)
		cfg.Name, cfg.Store = fmt.Sprint("process ", i), p
		all, each = append(all, core.Must(gate.New(cfg))), append(each, p)
	}
	return all, each
}

// closeAll closes gates whose permits may not be ended.
func closeAll(gates []*gate.Gate) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for _, g := range gates {
		_ = g.Close(ended)
	}
}

// withStoreAndWithout runs a test in two bubbles with virtual time and a gate.
func withStoreAndWithout(t *testing.T, cfg gate.Config, f func(t tester, g *gate.Gate)) {
	t.Helper()
	for _, name := range []string{"", "ads"} {
		synctest.Test(t, func(t *testing.T) {
			if cfg.Name = name; name != "" {
				cfg.Store = newRedis(2 * time.Millisecond).process(0)
			}
			g := core.Must(gate.New(cfg))
			defer closeAll([]*gate.Gate{g})
			f(tester{t}, g)
		})
	}
}

// While the Store is unavailable, a process sends its share for 10 seconds, and then nothing until it answers.
func TestStoreUnavailable(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cfg  gate.Config
		from [6]int // calls in 5 seconds, at least
		to   [6]int // and at most
		n    int    // processes
	}{
		{
			gate.Config{Limits: perSecond(50)},
			[6]int{235, 220, 220, 0, 0, 220},
			[6]int{240, 240, 240, 4, 0, 240},
			4,
		},
		{
			gate.Config{Limits: perSecond(50)},
			[6]int{235, 200, 220, 0, 0, 200},
			[6]int{245, 245, 245, 10, 0, 245},
			10,
		},
		{
			gate.Config{Limits: []gate.Limit{{N: 25, Per: time.Second}}, AllowOnStoreError: true},
			[6]int{117, 450, 450, 450, 450, 117},
			[6]int{120, 480, 480, 480, 480, 137},
			4,
		},
		{
			gate.Config{InFlight: 9}, // two places for each of four processes
			[6]int{410, 380, 380, 0, 0, 360},
			[6]int{450, 410, 410, 10, 0, 460},
			4,
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newRedis(2 * time.Millisecond)
			gates, _ := gatesOf(t, f, c.n, c.cfg)
			defer closeAll(gates)
			ctx, cancel := context.WithCancel(t.Context())
			begun := time.Now()
			go func() {
				time.Sleep(5 * time.Second)
				f.down.Store(true)
				time.Sleep(20 * time.Second)
				f.down.Store(false)
				time.Sleep(5 * time.Second)
				cancel()
			}()
			var sent counter
			loop(ctx, t, gates, max(3, 40/c.n), func(int) { sent.call(100 * time.Millisecond) })
			var per [6]int
			for _, at := range sent.begun {
				per[min(5, int(at.Sub(begun)/(5*time.Second)))]++
			}
			for i, n := range per {
				require.LessOrEqual(t, c.from[i], n, "%v", per)
				require.GreaterOrEqual(t, c.to[i], n, "%v", per)
			}
			if !c.cfg.AllowOnStoreError && c.cfg.InFlight == 0 {
				require.LessOrEqual(t, most(sent.begun, nil, time.Second), int64(50))
			}
			if c.cfg.InFlight > 0 {
				require.LessOrEqual(t, sent.most, c.cfg.InFlight)
			}
		})
	}
}

// A killed process gives its place back with its lease, and the turn of its probe after 10 seconds.
func TestKilledProcess(t *testing.T) {
	t.Parallel()
	for name, hold := range map[string]bool{"place": false, "probe": true} {
		synctest.Test(t, func(t *testing.T) {
			f := newRedis(2 * time.Millisecond)
			cfg := gate.Config{}
			if !hold {
				cfg.InFlight = 1
			}
			gates, each := gatesOf(t, f, 4, cfg)
			defer closeAll(gates)
			var c counter
			var refused atomic.Bool
			over := make(chan struct{})
			var wg sync.WaitGroup
			for i, g := range gates {
				wg.Go(func() {
					require.NoError(t, g.Do(t.Context(), gate.Call{}, func(context.Context) error {
						if hold && !refused.Swap(true) {
							return limited{time.Second}
						}
						c.mu.Lock()
						first := len(c.begun) == 0
						c.mu.Unlock()
						if first {
							each[i].cut.Store(true)
						}
						c.call(0)
						if first {
							<-over
						} else {
							time.Sleep(100 * time.Millisecond)
						}
						return nil
					}))
				})
				time.Sleep(50 * time.Millisecond)
			}
			time.Sleep(30 * time.Second)
			close(over)
			wg.Wait()
			require.Len(t, c.begun, 4, name)
			wait := c.begun[1].Sub(c.begun[0])
			require.GreaterOrEqual(t, wait, 10*time.Second, name)
			require.LessOrEqual(t, wait, 11*time.Second, name)
			require.GreaterOrEqual(t, c.begun[2].Sub(c.begun[1]), 100*time.Millisecond, name)
		})
	}
}

func TestSharedHolds(t *testing.T) {
	t.Parallel()
	type world struct {
		*testing.T
		v     *redisServer
		gates []*gate.Gate
	}
	pass := func(w world, i int) *gate.Permit {
		w.Helper()
		p, err := w.gates[i].Wait(w.Context(), gate.Call{})
		require.NoError(w, err)
		return p
	}
	refused := func(w world, i int, pause time.Duration) {
		w.Helper()
		pass(w, i).Done(limited{pause})
		time.Sleep(10 * time.Millisecond)
	}
	for name, row := range map[string]struct {
		cfg   gate.Config
		steps func(w world)
		after time.Duration // to the next call of the second process
	}{
		"shared": {steps: func(w world) { refused(w, 0, time.Minute) }, after: time.Minute},
		"longest counts": {steps: func(w world) {
			p, q := pass(w, 0), pass(w, 1)
			p.Done(limited{time.Minute})
			q.Done(limited{time.Second})
		}, after: time.Minute},
		"longest counts, second": {steps: func(w world) {
			p, q := pass(w, 0), pass(w, 1)
			p.Done(limited{time.Second})
			q.Done(limited{time.Minute})
		}, after: time.Minute},
		"longest counts, another one is learned": {steps: func(w world) {
			p, q, r := pass(w, 0), pass(w, 0), pass(w, 1)
			r.Done(limited{time.Second})
			time.Sleep(1500 * time.Microsecond)
			ctx, cancel := context.WithCancel(w.Context())
			go func() { _, _ = w.gates[0].Wait(ctx, gate.Call{}) }()
			time.Sleep(500 * time.Microsecond)
			p.Done(limited{time.Second})
			time.Sleep(10 * time.Millisecond)
			cancel()
			q.Done(limited{time.Minute})
			time.Sleep(10 * time.Millisecond)
		}, after: time.Minute},
		"late answer": {steps: func(w world) {
			p := pass(w, 0)
			refused(w, 1, time.Second)
			pass(w, 1).Done(nil)
			p.Done(limited{time.Minute})
			time.Sleep(10 * time.Millisecond)
		}},
		"resumed": {steps: func(w world) {
			refused(w, 1, time.Hour)
			require.NoError(w, w.gates[1].Resume(w.Context(), "", ""))
		}},
		"resumed by another process": {steps: func(w world) {
			refused(w, 1, time.Hour)
			time.Sleep(time.Minute)
			require.NoError(w, w.gates[0].Resume(w.Context(), "", ""))
		}},
		"resumed, late answer": {steps: func(w world) {
			p := pass(w, 0)
			refused(w, 1, time.Hour)
			require.NoError(w, w.gates[1].Resume(w.Context(), "", ""))
			time.Sleep(10 * time.Millisecond)
			p.Done(limited{time.Hour})
			time.Sleep(10 * time.Millisecond)
		}},
		"known, and the store is down": {cfg: gate.Config{AllowOnStoreError: true}, steps: func(w world) {
			refused(w, 1, time.Minute)
			w.v.down.Store(true)
		}, after: time.Minute},
		"told while the store is down": {steps: func(w world) {
			p := pass(w, 0)
			w.v.down.Store(true)
			p.Done(limited{time.Minute})
			time.Sleep(5 * time.Second)
			w.v.down.Store(false)
			time.Sleep(time.Second)
		}, after: 54 * time.Second},
		"another key while it is asked for": {cfg: gate.Config{Limits: []gate.Limit{{Name: "all"}}}, steps: func(w world) {
			refused(w, 1, time.Second)
			time.Sleep(15 * time.Second)
			ctx, cancel := context.WithTimeout(w.Context(), time.Millisecond) // then the gate forgets the key
			defer cancel()
			_, err := w.gates[1].Wait(ctx, gate.Call{})
			require.ErrorIs(w, err, context.DeadlineExceeded)
		}},
		"limit lifted": {cfg: gate.Config{Limits: []gate.Limit{{N: 1, Per: 90 * time.Second}}}, steps: func(w world) {
			pass(w, 1).Done(nil)
			cfg := w.gates[1].Config()
			cfg.Limits = nil
			time.AfterFunc(time.Minute, func() { require.NoError(w, w.gates[1].SetConfig(cfg)) })
		}, after: time.Minute},
		"refused, and the store is down": {cfg: gate.Config{MaxWait: 30 * time.Second}, steps: func(w world) {
			err := w.gates[0].Do(w.Context(), gate.Call{}, func(context.Context) error {
				w.v.down.Store(true)
				return limited{time.Second}
			})
			require.ErrorIs(w, err, gate.ErrLimited)
			require.NotErrorIs(w, err, core.ErrRejected, "it was sent")
			w.v.down.Store(false)
			time.Sleep(time.Minute)
		}},
		"no probe while the store is down": {steps: func(w world) {
			refused(w, 1, time.Second)
			w.v.down.Store(true)
			time.AfterFunc(time.Minute, func() { w.v.down.Store(false) })
		}, after: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				v := newRedis(2 * time.Millisecond)
				gates, _ := gatesOf(t, v, 2, row.cfg)
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(2*time.Minute, cancel)
				row.steps(world{t, v, gates})
				start := time.Now()
				p, err := gates[1].Wait(ctx, gate.Call{})
				require.NoError(t, err)
				waited := time.Since(start)
				require.GreaterOrEqual(t, waited, row.after-100*time.Millisecond)
				require.LessOrEqual(t, waited, row.after+4*time.Second)
				p.Done(nil)
				cancel()
				closeAll(gates)
			})
		})
	}
}

// A hold goes before anything else of its process.
func TestHoldGoesFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := newRedis(2 * time.Millisecond)
		gates, _ := gatesOf(t, v, 1, gate.Config{InFlight: 2})
		defer closeAll(gates)
		var permits []*gate.Permit
		for range 2 {
			p, err := gates[0].Wait(t.Context(), gate.Call{})
			require.NoError(t, err)
			permits = append(permits, p)
		}
		n := len(v.log())
		go func() { _ = do(t.Context(), gates[0], gate.Call{}, 0) }()
		permits[0].Done(limited{time.Second})
		permits[1].Done(nil)
		time.Sleep(3 * time.Second)
		log := v.log()[n:]
		if log[0] == "0: pass" {
			log = log[1:] // it was on its way
		}
		require.Equal(t, "0: hold", log[0])
		require.Zero(t, gates[0].Stats().Waiting, "the ends have arrived too")
	})
}

// A store of which some operations fail.
type broken struct {
	gatestore.Table
	hold  error
	lost  atomic.Bool // replies are
	holds []int       // in the reports that have arrived
}

func (b *broken) OpenGate(string) (gatestore.Table, error) { return b, nil }

func (b *broken) Report(ctx context.Context, r gatestore.Report) (gatestore.State, []gatestore.Hold, error) {
	if len(r.Holds) > 0 && b.hold != nil {
		return gatestore.State{}, nil, b.hold
	}
	state, holds, err := b.Table.Report(ctx, r)
	if b.lost.Load() {
		return gatestore.State{}, nil, errors.New("the reply is lost")
	}
	if err == nil && len(holds) > 0 {
		b.holds = append(b.holds, len(holds))
	}
	return state, holds, err
}

// Many holds, as after an outage, go in several reports, and those that are over are not told.
func TestManyHolds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := newRedis(2 * time.Millisecond)
		store := &broken{Table: core.Must(v.process(0).OpenGate(""))}
		cfg := gate.Config{Name: "ads", Store: store, Limits: []gate.Limit{{Name: "account", Key: gate.ByCall}}}
		g := core.Must(gate.New(cfg))
		cfg.Name, cfg.Store = "other", v.process(1)
		other := core.Must(gate.New(cfg))
		defer closeAll([]*gate.Gate{g, other})
		var permits []*gate.Permit
		for i := range 500 {
			p, err := g.Wait(t.Context(), account(fmt.Sprint(i)))
			require.NoError(t, err)
			permits = append(permits, p)
		}
		v.down.Store(true)
		for i, p := range permits {
			p.Done(limited{time.Duration(1+i%2) * time.Minute})
		}
		time.Sleep(90 * time.Second)
		v.down.Store(false)
		time.Sleep(time.Second)
		synctest.Wait()
		sum := 0
		for _, n := range store.holds {
			require.LessOrEqual(t, n, 128)
			sum += n
		}
		require.Equal(t, 250, sum)
		for i := range 20 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err := other.Wait(ctx, account(fmt.Sprint(2*i+1)))
			require.ErrorIs(t, err, gate.ErrLimited, i)
			cancel()
		}
	})
}

// A hold that cannot be sent does not stop the calls of other keys.
func TestHoldCannotBeSent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &broken{Table: core.Must(newRedis(2 * time.Millisecond).process(0).OpenGate("")), hold: errors.New("no memory")}
		g := core.Must(gate.New(gate.Config{Name: "ads", Store: store, Limits: []gate.Limit{{Name: "account", Key: gate.ByCall}}}))
		defer closeAll([]*gate.Gate{g})
		refused(t, g, account("a"), 0, time.Minute)
		time.Sleep(10 * time.Millisecond)
		for range 50 {
			time.Sleep(150 * time.Millisecond)
			start := time.Now()
			p, err := g.Wait(t.Context(), account("b"))
			require.NoError(t, err)
			require.Less(t, time.Since(start), 20*time.Millisecond)
			p.Done(nil)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Second)
		defer cancel()
		_, err := g.Wait(ctx, account("a"))
		require.ErrorIs(t, err, gate.ErrLimited)
	})
}

// Calls that MaxWait refuses ask the Store rarely: what it has told before answers them.
func TestRefusedCallsAskRarely(t *testing.T) {
	t.Parallel()
	for _, most := range []time.Duration{-1, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			v := newRedis(2 * time.Millisecond)
			gates, _ := gatesOf(t, v, 2, gate.Config{Limits: []gate.Limit{{N: 1, Per: time.Hour}}, MaxWait: most})
			defer closeAll(gates)
			p, err := gates[1].Wait(t.Context(), gate.Call{})
			require.NoError(t, err)
			p.Done(nil)
			n := len(v.log())
			var wg sync.WaitGroup
			for range 1000 {
				wg.Go(func() {
					_, err := gates[0].Wait(t.Context(), gate.Call{})
					require.ErrorIs(t, err, gate.ErrLimited)
					wait, _ := core.RetryAfter(err)
					require.InDelta(t, time.Hour, wait, float64(10*time.Second))
				})
				time.Sleep(2 * time.Millisecond)
			}
			wg.Wait()
			require.LessOrEqual(t, len(v.log())-n, 2*20+2, "in 2 seconds")
		})
	}
}

// A key that refuses calls which do not wait is not kept for them.
func TestRefusedCallsLeaveNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := gate.Config{Limits: []gate.Limit{{Name: "account", N: 1, Per: time.Hour, Key: gate.ByCall}}, MaxWait: -1}
		gates, _ := gatesOf(t, newRedis(2*time.Millisecond), 1, cfg)
		defer closeAll(gates)
		for range 2 {
			if p, err := gates[0].Wait(t.Context(), account("a")); err == nil {
				p.Done(nil)
			}
			time.Sleep(time.Second)
		}
		gates[0].Holds() // it looks at wakes
		require.Zero(t, gates[0].Wakes())
	})
}

// What was used under one limit counts under the next.
func TestSharedLimitIsChanged(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		from, to    int64 // calls an hour
		calls       int
		least, most time.Duration // of the next one
	}{
		"raised":  {from: 1, to: 3_600_000, calls: 1, most: time.Second},
		"lowered": {from: 60, to: 1, calls: 3, least: 59 * time.Minute, most: 61 * time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			hour := func(n int64) []gate.Limit { return []gate.Limit{{N: n, Per: time.Hour}} }
			gates, _ := gatesOf(t, newRedis(2*time.Millisecond), 2, gate.Config{Limits: hour(row.from)})
			defer closeAll(gates)
			for range row.calls {
				p, err := gates[0].Wait(t.Context(), gate.Call{})
				require.NoError(t, err)
				p.Done(nil)
			}
			for _, g := range gates {
				cfg := g.Config()
				cfg.Limits = hour(row.to)
				require.NoError(t, g.SetConfig(cfg))
			}
			start := time.Now()
			p, err := gates[1].Wait(t.Context(), gate.Call{})
			require.NoError(t, err)
			p.Done(nil)
			require.GreaterOrEqual(t, time.Since(start), row.least, name)
			require.LessOrEqual(t, time.Since(start), row.most, name)
		})
	}
}

// The slot of a permit that is canceled is for others, in every process.
func TestSharedReserveCanceled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gates, _ := gatesOf(t, newRedis(2*time.Millisecond), 2, gate.Config{Limits: []gate.Limit{{N: 1, Per: time.Minute}}})
		defer closeAll(gates)
		var permits []*gate.Permit
		reserve := func(i int) *gate.Permit {
			p, err := gates[i].Reserve(t.Context(), gate.Call{})
			require.NoError(t, err)
			return p
		}
		for i := range 4 {
			permits = append(permits, reserve(i%2))
		}
		for _, i := range []int{1, 3} {
			permits[i].Cancel()
			time.Sleep(10 * time.Millisecond)
		}
		for _, i := range []int{1, 3} {
			require.WithinDuration(t, permits[i].At, reserve(0).At, 5*time.Millisecond)
		}
		require.NoError(t, permits[2].Wait(t.Context()))
		require.Equal(t, permits[2].At, time.Now())
		permits[2].Done(nil)
	})
}

// A limit that is removed needs no slot, even if a permit has one and the Store is away.
func TestSharedReserveOfRemovedLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		vendor := newRedis(2 * time.Millisecond)
		cfg := gate.Config{Limits: []gate.Limit{{Name: "all", N: 1, Per: time.Minute}}, AllowOnStoreError: true}
		gates, processes := gatesOf(t, vendor, 1, cfg)
		defer closeAll(gates)
		_, err := gates[0].Reserve(t.Context(), gate.Call{})
		require.NoError(t, err)
		p, err := gates[0].Reserve(t.Context(), gate.Call{})
		require.NoError(t, err)
		cfg.Name, cfg.Store, cfg.Limits = gates[0].Name(), processes[0], []gate.Limit{{Name: "other", N: 1, Per: time.Minute}}
		require.NoError(t, gates[0].SetConfig(cfg))
		vendor.down.Store(true)
		time.Sleep(5 * time.Second)
		require.NoError(t, p.Wait(t.Context()))
		require.WithinDuration(t, p.At, time.Now(), time.Second)
		p.Done(nil)
	})
}

// Permits that are used are not given back, and those of a call that turns out to cost more are taken.
func TestSharedPermitsOfFunction(t *testing.T) {
	t.Parallel()
	costs := func(n int64) gate.Call { return gate.Call{Costs: map[string]int64{"": n}} }
	for name, fn := range map[string]func(t *testing.T, g *gate.Gate) error{
		"panics": func(*testing.T, *gate.Gate) error { panic("of fn") },
		"costs more": func(t *testing.T, g *gate.Gate) error {
			t.Helper()
			require.NoError(t, g.Do(t.Context(), gate.Call{}, func(ctx context.Context) error {
				return g.Do(ctx, costs(8), func(context.Context) error { return nil })
			}))
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				cfg := gate.Config{Limits: []gate.Limit{{N: 10, Per: time.Minute, Burst: 10}}}
				gates, _ := gatesOf(t, newRedis(2*time.Millisecond), 2, cfg)
				defer closeAll(gates)
				if name == "panics" {
					require.Panics(t, func() {
						_ = gates[0].Do(t.Context(), costs(9), func(context.Context) error { return fn(t, gates[0]) })
					})
				} else {
					require.NoError(t, fn(t, gates[0]))
				}
				time.Sleep(time.Second)
				start := time.Now()
				p, err := gates[1].Wait(t.Context(), costs(3))
				require.NoError(t, err)
				require.Greater(t, time.Since(start), 50*time.Second)
				p.Done(nil)
			})
		})
	}
}

// A slot is given back once, though the reply to that is lost.
func TestSlotIsGivenBackOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &broken{Table: core.Must(newRedis(2 * time.Millisecond).process(0).OpenGate(""))}
		g := core.Must(gate.New(gate.Config{Name: "ads", Store: store, Limits: []gate.Limit{{N: 1, Per: time.Minute}}}))
		defer closeAll([]*gate.Gate{g})
		reserve := func() *gate.Permit {
			p, err := g.Reserve(t.Context(), gate.Call{})
			require.NoError(t, err)
			return p
		}
		_, second, third := reserve(), reserve(), reserve()
		store.lost.Store(true)
		second.Cancel()
		time.Sleep(2 * time.Second)
		store.lost.Store(false)
		time.Sleep(2 * time.Second)
		require.WithinDuration(t, second.At, reserve().At, 5*time.Millisecond)
		require.WithinDuration(t, third.At.Add(time.Minute+50*time.Millisecond), reserve().At, 5*time.Millisecond)
	})
}

// A call whose request costs other than its function is charged once, and keeps its slots of other limits.
func TestSharedCostIsChanged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		costs := func(n int64) gate.Call { return gate.Call{Costs: map[string]int64{"": n}} }
		cfg := gate.Config{Limits: []gate.Limit{{N: 10, Per: time.Minute, Burst: 10}, {Name: "calls", N: 3, Per: time.Minute, Burst: 3}}}
		gates, _ := gatesOf(t, newRedis(2*time.Millisecond), 1, cfg)
		defer closeAll(gates)
		later := func() { require.NoError(t, do(t.Context(), gates[0], costs(0), 0)) } // its slot comes after that of the function
		require.NoError(t, gates[0].Do(t.Context(), costs(2), func(ctx context.Context) error {
			later()
			return do(ctx, gates[0], costs(8), 0)
		}))
		start := time.Now()
		p, err := gates[0].Wait(t.Context(), costs(2))
		require.NoError(t, err)
		require.Less(t, time.Since(start), time.Second)
		p.Done(nil)
	})
}

// A slow store is one whose next replies to a Pass come late.
type slow struct {
	gatestore.Table
	late    atomic.Int64 // by so many nanoseconds
	replies atomic.Int64
}

func (s *slow) next(replies int64, late time.Duration) {
	s.replies.Store(replies)
	s.late.Store(int64(late))
}

func (s *slow) OpenGate(string) (gatestore.Table, error) { return s, nil }

func (s *slow) Pass(ctx context.Context, ask gatestore.Ask) (gatestore.Grant, error) {
	grant, err := s.Table.Pass(ctx, ask)
	if s.replies.Add(-1) >= 0 {
		time.Sleep(time.Duration(s.late.Load()))
	}
	return grant, err
}

// When a slot whose reply came late has really been is not known. It is given back, and another one is asked for.
func TestLateReply(t *testing.T) {
	t.Parallel()
	wait := func(t *testing.T, g *gate.Gate) *gate.Permit {
		t.Helper()
		p, err := g.Wait(t.Context(), gate.Call{})
		require.NoError(t, err)
		return p
	}
	reserve := func(t *testing.T, g *gate.Gate) *gate.Permit {
		t.Helper()
		wait(t, g).Done(nil)
		time.Sleep(300 * time.Millisecond)
		p, err := g.Reserve(t.Context(), gate.Call{})
		require.NoError(t, err)
		require.NoError(t, p.Wait(t.Context()))
		return p
	}
	again := func(t *testing.T, g *gate.Gate) *gate.Permit {
		t.Helper()
		p := wait(t, g)
		time.Sleep(300 * time.Millisecond) // its slot is too old now
		require.NoError(t, p.Wait(t.Context()))
		return p
	}
	for name, row := range map[string]struct {
		pass  func(t *testing.T, g *gate.Gate) *gate.Permit
		late  time.Duration // after the begin
		other bool          // another process takes the next slot
		most  time.Duration // from the begin
	}{
		"alone":                    {pass: wait, most: 950 * time.Millisecond},
		"Wait":                     {pass: wait, other: true, most: 2200 * time.Millisecond},
		"Reserve":                  {pass: reserve, late: 200 * time.Millisecond, other: true, most: 3200 * time.Millisecond},
		"Wait, when it is sent":    {pass: again, late: 200 * time.Millisecond, other: true, most: 2200 * time.Millisecond},
		"Wait, alone, a bit later": {pass: again, most: 2200 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				v := newRedis(2 * time.Millisecond)
				store := &slow{Table: core.Must(v.process(0).OpenGate(""))}
				cfg := gate.Config{Name: "ads", Store: store, Limits: perSecond(1)}
				g := core.Must(gate.New(cfg))
				cfg.Name, cfg.Store = "other", v.process(1)
				other := core.Must(gate.New(cfg))
				defer closeAll([]*gate.Gate{g, other})
				wait(t, g).Done(nil) // the usual time of a reply is known
				time.Sleep(10 * time.Second)
				start := time.Now()
				var at []time.Time
				time.AfterFunc(row.late, func() { store.next(1, 700*time.Millisecond) })
				var group sync.WaitGroup
				if row.other {
					group.Go(func() {
						time.Sleep(row.late + 110*time.Millisecond)
						wait(t, other).Done(nil)
						at = append(at, time.Now())
					})
				}
				synctest.Wait()
				row.pass(t, g).Done(nil)
				sent := time.Now()
				group.Wait()
				at = append(at, sent)
				slices.SortFunc(at, time.Time.Compare)
				require.LessOrEqual(t, most(at, nil, time.Second), int64(1), "%v", at)
				require.LessOrEqual(t, sent.Sub(start), row.most)
			})
		})
	}
}

// All slots of a late reply are given back, and if all replies are late from now on, calls do not wait for long.
func TestLateReplies(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		replies int64
		most    time.Duration // for each call
	}{"one": {1, 450 * time.Millisecond}, "all": {math.MaxInt64, 4 * time.Second}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := &slow{Table: core.Must(newRedis(2 * time.Millisecond).process(0).OpenGate(""))}
				g := core.Must(gate.New(gate.Config{Name: "ads", Store: store, Limits: []gate.Limit{{N: 10, Per: time.Hour, Burst: 10}}}))
				defer closeAll([]*gate.Gate{g})
				require.NoError(t, do(t.Context(), g, gate.Call{}, 0))
				time.Sleep(time.Hour)
				store.next(row.replies, 300*time.Millisecond)
				for range 2 {
					start := time.Now()
					var group sync.WaitGroup
					for range 5 {
						group.Go(func() { require.NoError(t, do(t.Context(), g, gate.Call{}, 0)) })
					}
					group.Wait()
					require.LessOrEqual(t, time.Since(start), row.most)
				}
			})
		})
	}
}

// Resume of all ends the holds of keys that only other processes know.
func TestResumeEndsAllHolds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := gate.Config{Limits: []gate.Limit{{Name: "account", Key: gate.ByCall}}}
		gates, _ := gatesOf(t, newRedis(2*time.Millisecond), 3, cfg)
		defer closeAll(gates)
		refused(t, gates[0], account("a"), 0, 24*time.Hour)
		time.Sleep(time.Hour)
		require.NoError(t, gates[1].Resume(t.Context(), "", ""))
		for i, most := range []time.Duration{4 * time.Second, time.Second, time.Second} {
			ctx, cancel := context.WithTimeout(t.Context(), most)
			p, err := gates[2-i].Wait(ctx, account("a"))
			require.NoError(t, err, i)
			p.Done(nil)
			cancel()
		}
		refused(t, gates[2], account("a"), 0, time.Hour)
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := gates[1].Wait(ctx, account("a"))
		require.ErrorIs(t, err, gate.ErrLimited, "a later hold is one")
	})
}

// A process that is alone and far from the Store uses its limit.
func TestSharedByOne(t *testing.T) {
	t.Parallel()
	for _, trip := range []time.Duration{2 * time.Millisecond, 40 * time.Millisecond, 100 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			gates, _ := gatesOf(t, newRedis(trip), 1, gate.Config{Limits: perSecond(50)})
			defer closeAll(gates)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			var sent counter
			loop(ctx, t, gates, 100, func(int) { sent.call(0) })
			require.LessOrEqual(t, most(sent.begun, nil, time.Second), int64(50))
			require.GreaterOrEqual(t, len(sent.begun), 10*47*9/10, trip)
		})
	}
}

// What the Store has given is counted by this process too, for when it is unavailable.
func TestSharedSlotBeforeOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newRedis(2 * time.Millisecond)
		gates, _ := gatesOf(t, f, 1, gate.Config{Limits: perSecond(1)})
		defer closeAll(gates)
		var sent counter
		require.NoError(t, gates[0].Do(t.Context(), gate.Call{}, func(context.Context) error { sent.call(0); return nil }))
		p, err := gates[0].Reserve(t.Context(), gate.Call{})
		require.NoError(t, err)
		f.down.Store(true)
		var wg sync.WaitGroup
		wg.Go(func() {
			require.NoError(t, gates[0].Do(t.Context(), gate.Call{}, func(context.Context) error { sent.call(0); return nil }))
		})
		wg.Go(func() {
			require.NoError(t, p.Wait(t.Context()))
			sent.call(0)
			p.Done(nil)
		})
		wg.Wait()
		require.Len(t, sent.begun, 3)
		require.LessOrEqual(t, most(sent.begun, nil, time.Second), int64(1))
	})
}

// A slot of the Store lies ahead by a round trip: it is no wait, and can be used without one.
func TestSharedReserveWithoutWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := gate.Config{Limits: append(perSecond(10), gate.Limit{Name: "host", Key: client.Host}), MaxWait: -1}
		gates, _ := gatesOf(t, newRedis(20*time.Millisecond), 1, cfg)
		defer closeAll(gates)
		require.NoError(t, do(t.Context(), gates[0], gate.Call{}, 0))
		time.Sleep(time.Second)
		p, err := gates[0].Reserve(t.Context(), gate.Call{})
		require.NoError(t, err)
		require.NoError(t, p.Wait(t.Context()))
		p.Done(nil)
		rt := gates[0].Transport(resiltest.NewScript(resiltest.Reply{Status: 200}))
		for range 4 {
			time.Sleep(time.Second)
			require.NoError(t, gates[0].Do(t.Context(), gate.Call{}, func(ctx context.Context) error {
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://vendor.test/", nil)
				require.NoError(t, err)
				resp, err := rt.RoundTrip(req)
				if err == nil {
					err = resp.Body.Close()
				}
				return err
			}))
		}
	})
}

// With a Store too, a call that would wait behind others for too long is refused at once.
func TestSharedEstimate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gates, _ := gatesOf(t, newRedis(2*time.Millisecond), 1, gate.Config{Limits: perSecond(10)})
		defer closeAll(gates)
		ctx, stop := context.WithCancel(t.Context())
		for range 100 {
			go func() { _ = do(ctx, gates[0], gate.Call{}, 0) }()
		}
		time.Sleep(time.Second)
		soon, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		err := do(soon, gates[0], gate.Call{}, 0)
		require.ErrorIs(t, err, gate.ErrLimited)
		require.Zero(t, time.Since(start))
		wait, _ := core.RetryAfter(err)
		require.Greater(t, wait, 8*time.Second)
		stop()
		synctest.Wait()
	})
}

// Calls that wait for a place, or for a hold of the vendor, take their tokens before a later call.
func TestEstimateBehindVendor(t *testing.T) {
	t.Parallel()
	withStoreAndWithout(t, gate.Config{InFlight: 1, Limiter: rate.NewLimiter(10, 1)}, func(t tester, g *gate.Gate) {
		ctx, stop := context.WithCancel(t.Context())
		p, err := g.Wait(ctx, gate.Call{})
		require.NoError(t, err)
		for range 300 {
			go func() { _ = do(ctx, g, gate.Call{}, 0) }()
		}
		time.Sleep(time.Second)
		soon, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		start := time.Now()
		require.ErrorIs(t, do(soon, g, gate.Call{}, 0), gate.ErrLimited)
		require.Zero(t, time.Since(start))
		stop()
		p.Done(nil)
		synctest.Wait()
	})
}

// While the Store is asked about a call, that has its token: another call is not refused because of it.
func TestSharedLimiter(t *testing.T) {
	t.Parallel()
	const trip = 500 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		gates, _ := gatesOf(t, newRedis(trip), 1, gate.Config{Limiter: rate.NewLimiter(10, 1), MaxWait: -1})
		defer closeAll(gates)
		var group sync.WaitGroup
		for range 2 {
			group.Go(func() { require.NoError(t, do(t.Context(), gates[0], gate.Call{}, 0)) })
			time.Sleep(trip / 2)
		}
		group.Wait()
	})
	synctest.Test(t, func(t *testing.T) { // the next token comes too late
		cfg := gate.Config{Limiter: rate.NewLimiter(rate.Every(time.Minute), 1), MaxWait: 30 * time.Second}
		gates, _ := gatesOf(t, newRedis(trip), 1, cfg)
		defer closeAll(gates)
		go func() { _ = do(t.Context(), gates[0], gate.Call{}, 0) }()
		time.Sleep(trip / 2)
		start := time.Now()
		require.ErrorIs(t, do(t.Context(), gates[0], gate.Call{}, 0), gate.ErrLimited)
		require.Zero(t, time.Since(start))
	})
	synctest.Test(t, func(t *testing.T) { // a Limiter that is added while the Store is asked
		gates, _ := gatesOf(t, newRedis(trip), 1, gate.Config{})
		defer closeAll(gates)
		for range 5 {
			go func() {
				_ = gates[0].Do(t.Context(), gate.Call{}, func(ctx context.Context) error { <-ctx.Done(); return nil })
			}()
		}
		time.Sleep(trip + trip/2) // the first is sent
		cfg := gates[0].Config()
		cfg.Limiter = rate.NewLimiter(10, 1)
		require.NoError(t, gates[0].SetConfig(cfg))
		time.Sleep(trip)
		require.Equal(t, 5, gates[0].Stats().InFlight)
		start := time.Now()
		require.NoError(t, do(t.Context(), gates[0], gate.Call{}, 0))
		require.LessOrEqual(t, time.Since(start), 2*trip)
	})
}

// A call that waits for a hold is sent when that is resumed, at once.
func TestSharedResumeOfWaiter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gates, _ := gatesOf(t, newRedis(2*time.Millisecond), 1, gate.Config{})
		defer closeAll(gates)
		refused(t, gates[0], gate.Call{}, 0, time.Hour)
		time.Sleep(time.Second)
		over := make(chan time.Time, 1)
		go func() { over <- time.Now(); _ = do(t.Context(), gates[0], gate.Call{}, 0); over <- time.Now() }()
		<-over
		time.Sleep(time.Minute)
		start := time.Now()
		require.NoError(t, gates[0].Resume(t.Context(), "", ""))
		require.LessOrEqual(t, (<-over).Sub(start), 100*time.Millisecond)
	})
}

// A process whose leases are over adds its places once, and asks before it sends.
func TestStoppedProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := newRedis(2 * time.Millisecond)
		gates, each := gatesOf(t, v, 2, gate.Config{InFlight: 1})
		defer closeAll(gates)
		p, err := gates[0].Wait(t.Context(), gate.Call{})
		require.NoError(t, err)
		time.Sleep(time.Minute) // it is renewed
		each[0].cut.Store(true)
		start := time.Now()
		other, err := gates[1].Wait(t.Context(), gate.Call{})
		require.NoError(t, err)
		require.GreaterOrEqual(t, time.Since(start), 7*time.Second)
		require.LessOrEqual(t, time.Since(start), 11*time.Second)
		each[0].cut.Store(false)
		time.AfterFunc(30*time.Second, func() { other.Done(nil) })
		start = time.Now()
		require.NoError(t, p.Wait(t.Context()))
		require.GreaterOrEqual(t, time.Since(start), 30*time.Second)
		p.Done(nil)
	})
}

// Callers that give up leave no hole: half of three times as many as the limit leave at random.
func TestSharedCallersThatGiveUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := newRedis(10 * time.Millisecond)
		gates, _ := gatesOf(t, v, 4, gate.Config{Limits: perSecond(100)})
		defer closeAll(gates)
		random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test
		var sent counter
		var wg sync.WaitGroup
		ctx, stop := context.WithCancel(t.Context())
		for i := range 1200 {
			patience := time.Hour
			if i%2 == 0 {
				patience = time.Duration(random.IntN(1000)) * time.Millisecond
			}
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(ctx, patience)
				defer cancel()
				_ = gates[i%4].Do(ctx, gate.Call{}, func(context.Context) error { sent.call(0); return nil })
			})
			time.Sleep(time.Second / 300)
		}
		stop()
		wg.Wait()
		require.LessOrEqual(t, most(sent.begun, nil, time.Second), int64(100))
		require.GreaterOrEqual(t, len(sent.begun), 4*95*9/10)
	})
}

// A process whose calls take long does not keep its place from another one.
func TestSharedPlaceOfLongCalls(t *testing.T) {
	t.Parallel()
	for _, takes := range []time.Duration{time.Second, 3 * time.Second, 10 * time.Second} {
		for offset := range 2 {
			synctest.Test(t, func(t *testing.T) {
				gates, _ := gatesOf(t, newRedis(2*time.Millisecond), 2, gate.Config{InFlight: 1})
				defer closeAll(gates)
				ctx, cancel := context.WithTimeout(t.Context(), 20*takes)
				defer cancel()
				var counts [2]atomic.Int64
				loop(ctx, t, gates, 2, func(i int) {
					counts[i].Add(1)
					time.Sleep(takes + time.Duration(97*offset)*time.Millisecond)
				})
				for i := range counts {
					require.Greater(t, 3*counts[i].Load(), counts[0].Load()+counts[1].Load(), "process %d, %v", i, takes)
				}
			})
		}
	}
}

// A process without calls sees those of the others end, and leaves its share to them.
func TestSharedIdleProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := newRedis(2 * time.Millisecond)
		gates, _ := gatesOf(t, v, 2, gate.Config{InFlight: 2})
		defer closeAll(gates)
		pass := func(g *gate.Gate) *gate.Permit {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			p, err := g.Wait(ctx, gate.Call{})
			require.NoError(t, err)
			return p
		}
		long := pass(gates[1])
		pass(gates[0]).Done(nil)
		time.Sleep(16 * time.Second)
		require.Equal(t, 1, gates[0].Stats().InFlight)
		refused := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := gates[0].Wait(ctx, gate.Call{})
			return err
		}
		full := pass(gates[1])
		require.ErrorIs(t, refused(), context.DeadlineExceeded)
		full.Done(nil)
		v.down.Store(true)
		pass(gates[1]).Done(nil)
		require.ErrorIs(t, refused(), gate.ErrStore, "the others have its share, also if it has asked for a place")
		v.down.Store(false)
		time.Sleep(time.Second)
		long.Done(nil)
		time.Sleep(4 * time.Second)
		require.Zero(t, gates[0].Stats().InFlight)
	})
}

// A closed gate has no place that was granted meanwhile, and no goroutine.
func TestSharedClose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := newRedis(20 * time.Millisecond)
		gates, _ := gatesOf(t, v, 3, gate.Config{InFlight: 1})
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Millisecond)
		defer cancel()
		_, err := gates[0].Wait(ctx, gate.Call{})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		closeAll(gates[:1])
		start := time.Now()
		p, err := gates[1].Wait(t.Context(), gate.Call{})
		require.NoError(t, err)
		require.Less(t, time.Since(start), time.Second)
		p.Done(nil)
		p, err = gates[2].Reserve(t.Context(), gate.Call{})
		require.NoError(t, err)
		closeAll(gates)
		p.Done(limited{time.Second})
	})
}

func TestSharedWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := newRedis(2 * time.Millisecond)
		gates, _ := gatesOf(t, v, 2, gate.Config{Limits: perSecond(1), MaxWait: 3 * time.Second})
		defer closeAll(gates)
		first, err := gates[0].Wait(t.Context(), gate.Call{})
		require.NoError(t, err)
		far, err := gates[1].Reserve(t.Context(), gate.Call{})
		require.NoError(t, err)
		require.InDelta(t, 1050*time.Millisecond, time.Until(far.At), float64(10*time.Millisecond))
		second, err := gates[0].Reserve(t.Context(), gate.Call{})
		require.NoError(t, err)
		start := time.Now()
		_, err = gates[0].Wait(t.Context(), gate.Call{}) // after 3.15 s
		require.ErrorIs(t, err, gate.ErrLimited)
		require.ErrorIs(t, err, core.ErrRejected)
		wait, _ := core.RetryAfter(err)
		require.InDelta(t, 3150*time.Millisecond, wait, float64(20*time.Millisecond))
		require.Less(t, time.Since(start), 10*time.Millisecond)
		_, err = gates[1].Reserve(t.Context(), gate.Call{})
		require.ErrorIs(t, err, gate.ErrLimited)
		require.NoError(t, far.Wait(t.Context()))
		require.False(t, time.Now().Before(far.At))
		far.Done(nil)

		cfg := gates[0].Config()
		cfg.MaxWait = -1
		require.NoError(t, gates[0].SetConfig(cfg))
		_, err = gates[0].Wait(t.Context(), gate.Call{})
		require.ErrorIs(t, err, gate.ErrLimited)
		time.Sleep(time.Minute)
		p, err := gates[0].Wait(t.Context(), gate.Call{})
		require.NoError(t, err)
		p.Done(nil)
		first.Cancel()
		second.Cancel()
		gone, cancel := context.WithCancel(t.Context())
		time.AfterFunc(10*time.Millisecond, cancel)
		_, err = gates[1].Wait(gone, gate.Call{}) // in a second
		require.ErrorIs(t, err, context.Canceled)
		time.Sleep(time.Minute)
		v.down.Store(true)
		start = time.Now()
		_, err = gates[0].Wait(t.Context(), gate.Call{}) // it does not know it yet
		require.ErrorIs(t, err, gate.ErrStore)
		require.Less(t, time.Since(start), 10*time.Millisecond)
		time.Sleep(time.Minute)
		_, err = gates[1].Wait(t.Context(), gate.Call{})
		require.ErrorIs(t, err, gate.ErrStore)
		require.ErrorIs(t, err, core.ErrRejected)

		cfg.Store = newRedis(0).process(0)
		require.ErrorContains(t, gates[0].SetConfig(cfg), "Store")
		cfg.Name = ""
		_, err = gate.New(cfg)
		require.ErrorContains(t, err, "is required with a Store")
	})
}

// A hold that the Store does not know yet, since it is unavailable, does not come back after Resume.
func TestResumeDuringOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newRedis(2 * time.Millisecond)
		gates, _ := gatesOf(t, f, 2, gate.Config{Limits: []gate.Limit{{Name: "account", Key: gate.ByCall}}})
		defer closeAll(gates)
		p, err := gates[0].Wait(t.Context(), account("a"))
		require.NoError(t, err)
		f.down.Store(true)
		p.Done(refusal{time.Hour})
		time.Sleep(time.Second)
		require.Len(t, gates[0].Holds(), 1)
		_ = gates[0].Resume(t.Context(), "", "") // the Store cannot be told
		f.down.Store(false)
		time.Sleep(5 * time.Second)
		for _, g := range gates {
			require.Empty(t, g.Holds())
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			require.NoError(t, do(ctx, g, account("a"), 0))
			cancel()
		}
	})
}
