package gate_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/gatestoretest"
	"github.com/gresil/gresil/outbound/gate"
)

// gatesOf returns gates that share a store.
func gatesOf(t *testing.T, v *gatestoretest.Vendor, n int, cfg gate.Config) (all []*gate.Gate, each []*gatestoretest.Process) {
	t.Helper()
	for i := range n {
		p := v.Process(i)
		cfg.Name, cfg.Store = fmt.Sprint("process ", i), p
		all, each = append(all, core.Must(gate.New(cfg))), append(each, p)
	}
	return all, each
}

func closeAll(gates []*gate.Gate) {
	for _, g := range gates {
		_ = g.Close(context.Background())
	}
}

// While the Store is unavailable, a process sends its share for 10 seconds, and then nothing until it answers.
func TestStoreUnavailable(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cfg  gate.Config
		from [6]int // calls in 5 seconds, at least
		to   [6]int // and at most
	}{
		{
			gate.Config{Limits: []gate.Limit{{N: 100, Per: time.Second}}},
			[6]int{470, 440, 440, 0, 0, 440},
			[6]int{480, 480, 480, 0, 0, 480},
		},
		{
			gate.Config{Limits: []gate.Limit{{N: 100, Per: time.Second}}, AllowOnStoreError: true},
			[6]int{470, 1800, 1800, 1800, 1800, 470},
			[6]int{480, 1920, 1920, 1920, 1920, 550},
		},
		{
			gate.Config{InFlight: 9}, // two places for each of four processes
			[6]int{410, 380, 380, 0, 0, 360},
			[6]int{450, 410, 410, 10, 0, 460},
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := gatestoretest.New(2*time.Millisecond, nil)
			gates, _ := gatesOf(t, f, 4, c.cfg)
			defer closeAll(gates)
			ctx, cancel := context.WithCancel(t.Context())
			begun := time.Now()
			go func() {
				time.Sleep(5 * time.Second)
				f.Fail(true)
				time.Sleep(20 * time.Second)
				f.Fail(false)
				time.Sleep(5 * time.Second)
				cancel()
			}()
			var sent counter
			loop(ctx, t, gates, 10, func(int) { sent.call(100 * time.Millisecond) })
			var per [6]int
			for _, at := range sent.begun {
				per[min(5, int(at.Sub(begun)/(5*time.Second)))]++
			}
			for i, n := range per {
				require.LessOrEqual(t, c.from[i], n, "%v", per)
				require.GreaterOrEqual(t, c.to[i], n, "%v", per)
			}
			if !c.cfg.AllowOnStoreError && c.cfg.InFlight == 0 {
				require.LessOrEqual(t, most(sent.begun, nil, time.Second), int64(100))
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
			f := gatestoretest.New(2*time.Millisecond, nil)
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
							each[i].Kill()
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
