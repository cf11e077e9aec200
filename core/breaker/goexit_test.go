package breaker_test

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/internal/registry"
)

// ended runs f in a goroutine of its own, which f may end, and waits for it.
func ended(f func()) {
	var wg sync.WaitGroup
	wg.Go(f)
	wg.Wait()
}

func TestOnStateChangeThatEndsTheGoroutine(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(){"goexit": runtime.Goexit, "panic": func() { panic("hook") }} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var changes []breaker.State
				b := core.Must(breaker.New(breaker.Config{
					Trials: 1, TrialTimeout: -1, Initial: breaker.Open,
					OnStateChange: func(_ context.Context, c breaker.StateChange) {
						if changes = append(changes, c.To); c.To == breaker.HalfOpen {
							leave()
						}
					},
				}))
				time.Sleep(time.Hour)
				acquired := false
				ended(func() {
					defer func() { _ = recover() }()
					p, err := b.Acquire(t.Context())
					if acquired = err == nil; acquired {
						p.Done(core.Ignored)
					}
				})
				require.False(t, acquired)
				p, err := b.Acquire(t.Context())
				require.NoError(t, err, "the slot is free again")
				p.Done(core.Success)
				require.Equal(t, breaker.Closed, b.State())
				require.Equal(t, []breaker.State{breaker.HalfOpen, breaker.Closed}, changes)
			})
		})
	}
}

// Each kind of code that a user gives to a breaker ends the goroutine of a trial.
func TestWhateverEndsTheGoroutineOfATrialGivesItsSlotBack(t *testing.T) {
	t.Parallel()
	exit := func(on *bool) {
		if *on {
			runtime.Goexit()
		}
	}
	for name, set := range map[string]func(c *breaker.Config, on *bool){
		"Recorded": func(c *breaker.Config, on *bool) {
			c.Registry = listened(recordedText, func(registry.Event) { exit(on) })
		},
		"Classify": func(c *breaker.Config, on *bool) {
			c.Classify = func(context.Context, any, error) core.Outcome { exit(on); return core.Success }
		},
		"Trip": func(c *breaker.Config, on *bool) {
			c.Trip = func(context.Context, any, error) time.Duration { exit(on); return 0 }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				on := true
				cfg := breaker.Config{Trials: 2, TrialTimeout: -1, Initial: breaker.Open}
				set(&cfg, &on)
				b := core.Must(breaker.New(cfg))
				time.Sleep(time.Hour)
				call := func(ctx context.Context) (int, error) { return 1, nil }
				ended(func() { _, _ = breaker.Do(t.Context(), b, call) })
				on = false
				for range 2 {
					if b.State() == breaker.Closed {
						break
					}
					_, err := breaker.Do(t.Context(), b, call)
					require.NoError(t, err)
				}
				require.Equal(t, breaker.Closed, b.State())
			})
		})
	}
}
