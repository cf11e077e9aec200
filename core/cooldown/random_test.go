package cooldown_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/cooldown"
)

// A caller makes one call.
type caller struct {
	key      string
	came     time.Time
	cancel   context.CancelFunc
	over     bool // it does not wait any more
	permit   cooldown.Permit
	err      error
	admitted time.Time
	outcome  chan core.Outcome
}

// A model is what a key must look like, found out by counting.
type model struct {
	until time.Time
	held  time.Time // when the last hold was made
	room  int
}

// Random operations, one after the other, on a few keys. What has to hold is looked at
// after each.
func TestRandomOperations(t *testing.T) {
	t.Parallel()
	const most, timeout = 4 * time.Second, 2 * time.Second
	for seed := range uint64(150) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			c := newCooldown(t, cooldown.Config{MaxWait: most, ProbeTimeout: timeout, MaxHold: 5 * time.Second})
			keys := []string{"a", "b"}
			models := map[string]*model{"a": {}, "b": {}}
			var callers []*caller // in the order in which they came
			var wg sync.WaitGroup
			pick := func(f func(*caller) bool) *caller {
				var all []*caller
				for _, x := range callers {
					if f(x) {
						all = append(all, x)
					}
				}
				if len(all) == 0 {
					return nil
				}
				return all[r.IntN(len(all))]
			}
			hold := func(key string, d time.Duration) {
				m := models[key]
				if until := time.Now().Add(min(d, 5*time.Second)); until.After(m.until) {
					*m = model{until: until, held: time.Now(), room: 1}
				}
			}
			waits := func(x *caller) bool { return !x.over }
			runs := func(x *caller) bool { return x.outcome != nil && x.over && x.err == nil }
			of := func(x *caller, m *model) bool { return x.permit.AfterHold() && x.admitted.After(m.held) }
			young := func(x *caller, m *model) bool {
				return runs(x) && of(x, m) && time.Since(x.admitted) < timeout
			}
			for step := range 200 {
				key := keys[r.IntN(len(keys))]
				switch r.IntN(12) {
				case 0, 1, 2, 3:
					ctx, cancel := context.WithCancel(t.Context())
					x := &caller{key: key, came: time.Now(), cancel: cancel, outcome: make(chan core.Outcome, 1)}
					callers = append(callers, x)
					done := x.outcome
					wg.Go(func() {
						defer cancel()
						p, err := c.Acquire(ctx, key)
						x.permit, x.err, x.over, x.admitted = p, err, true, time.Now()
						if err == nil {
							p.Done(<-done)
						}
					})
				case 4, 5, 6, 7:
					if x := pick(runs); x != nil {
						outcome := core.Outcome(r.IntN(3))
						if r.IntN(2) == 0 {
							outcome = core.Success
						}
						done := x.outcome
						x.outcome = nil // it does not run any more
						if m := models[x.key]; of(x, m) {
							switch outcome {
							case core.Success:
								m.room++
							case core.Failure: // also if it is all over meanwhile
								hold(x.key, max(time.Second, m.until.Sub(m.held)))
							case core.Ignored:
							}
						}
						done <- outcome
					}
				case 8:
					d := time.Duration(1+r.IntN(6000)) * time.Millisecond
					hold(key, d)
					c.Hold(t.Context(), key, d)
				case 9:
					if x := pick(waits); x != nil {
						x.cancel()
					}
				case 10, 11:
					time.Sleep(time.Duration(r.IntN(1500))*time.Millisecond + 1)
				}
				synctest.Wait()
				time.Sleep(time.Nanosecond) // so that before and after can be told apart
				synctest.Wait()
				now := time.Now()
				waiting := 0
				for _, key := range keys {
					m := models[key]
					queue, running, overtaken := 0, 0, false
					for _, x := range callers {
						if x.key != key {
							continue
						}
						switch {
						case waits(x):
							queue++
							require.LessOrEqual(t, now.Sub(x.came), most, "seed %d, step %d", seed, step)
						case x.err == nil && x.admitted.After(m.held):
							require.False(t, x.admitted.Before(m.until), "seed %d, step %d: admitted while held", seed, step)
							overtaken = overtaken || queue > 0
							if young(x, m) {
								running++
							}
						}
					}
					waiting += queue
					require.False(t, overtaken, "seed %d, step %d: one who came later was admitted", seed, step)
					if m.room < 64 {
						require.LessOrEqual(t, running, max(1, m.room), "seed %d, step %d", seed, step)
					}
					if queue > 0 && !now.Before(m.until) {
						require.Equal(t, m.room, running, "seed %d, step %d: somebody waits for nothing", seed, step)
					}
				}
				require.Equal(t, waiting, c.Stats().Waiting)
			}
			for _, x := range callers {
				x.cancel()
				if x.outcome != nil {
					x.outcome <- core.Ignored
				}
			}
			wg.Wait()
			time.Sleep(time.Minute)
			s := c.Stats()
			require.Zero(t, s.Waiting)
			require.Zero(t, s.Keys)
		})
	}
}

// Many goroutines at once: a call that is Ready at its start is never one of a time
// that is held.
func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	c := newCooldown(t, cooldown.Config{MaxWait: time.Second, MaxKeys: 3})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 2))
			for range 500 {
				key := string(rune('a' + r.IntN(5)))
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(r.IntN(3))*time.Millisecond)
				switch p, err := c.Acquire(ctx, key); {
				case err != nil:
				case p.Ready():
					if r.IntN(4) == 0 {
						c.Hold(ctx, key, time.Duration(r.IntN(int(2*time.Millisecond))))
					}
					p.Done(core.Outcome(1 + r.IntN(8)/7))
				default:
					p.Done(core.Ignored)
				}
				if r.IntN(50) == 0 {
					c.Release(key)
				}
				cancel()
			}
		})
	}
	wg.Wait()
	require.Zero(t, c.Stats().Waiting)
}
