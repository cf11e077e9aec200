package cooldown_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/cooldown"
	"github.com/gresil/gresil/internal/eventtest"
	"github.com/gresil/gresil/internal/registry"
)

const key = "vendor"

func newCooldown(t *testing.T, cfg cooldown.Config) *cooldown.Cooldown {
	t.Helper()
	c, err := cooldown.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func acquire(t *testing.T, c *cooldown.Cooldown) cooldown.Permit {
	t.Helper()
	p, err := c.Acquire(t.Context(), key)
	require.NoError(t, err)
	return p
}

// A crowd is calls that are made as soon as they are admitted.
type crowd struct {
	mu     sync.Mutex
	starts []time.Duration
	errs   []error
	wg     sync.WaitGroup
}

// send makes n calls; call tells how they end.
func (k *crowd) send(ctx context.Context, c *cooldown.Cooldown, n int, call func(i int) core.Outcome) {
	begin := time.Now()
	for range n {
		k.wg.Go(func() {
			p, err := c.Acquire(ctx, key)
			k.mu.Lock()
			if err != nil {
				k.errs = append(k.errs, err)
				k.mu.Unlock()
				return
			}
			i := len(k.starts)
			k.starts = append(k.starts, time.Since(begin))
			k.mu.Unlock()
			p.Done(call(i))
		})
	}
}

func (k *crowd) wait() []time.Duration { k.wg.Wait(); return k.starts }

func slow(int) core.Outcome {
	time.Sleep(100 * time.Millisecond)
	return core.Success
}

func (k *crowd) at(d time.Duration) (n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range k.starts {
		if s == d {
			n++
		}
	}
	return n
}

func TestOneProbeAndThenARamp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCooldown(t, cooldown.Config{})
		c.Hold(t.Context(), key, 3*time.Second)
		var k crowd
		k.send(t.Context(), c, 200, slow)
		k.wait()
		var waves []int
		for ms := 3000; k.at(time.Duration(ms)*time.Millisecond) > 0; ms += 100 {
			waves = append(waves, k.at(time.Duration(ms)*time.Millisecond))
		}
		// The call that makes the 63rd room ends the ramp.
		require.Equal(t, []int{1, 2, 4, 8, 16, 32, 137}, waves)
		require.Equal(t, cooldown.Stats{Holds: 1, Resumed: 1, Waited: 200}, c.Stats())
	})
}

func TestAHoldIsNeverShortened(t *testing.T) {
	t.Parallel()
	for name, holds := range map[string][][2]int{ // seconds: at, for
		"long after short":           {{0, 15}, {0, 60}, {10, 5}},
		"short after long":           {{0, 60}, {0, 15}, {10, 5}},
		"the same again, later":      {{0, 15}, {8, 15}},
		"later, and over before":     {{0, 15}, {8, 5}},
		"not above zero":             {{0, 15}, {1, 0}, {2, -7}},
		"in the time of the waiters": {{0, 1}, {0, 2}, {1, 5}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newCooldown(t, cooldown.Config{MaxWait: -1})
				var end time.Duration
				var k crowd
				for i, h := range holds {
					at, d := time.Duration(h[0])*time.Second, time.Duration(h[1])*time.Second
					end = max(end, at+d)
					if i == 0 {
						c.Hold(t.Context(), key, d)
						k.send(t.Context(), c, 5, slow)
						continue
					}
					time.AfterFunc(at, func() { c.Hold(t.Context(), key, d) })
				}
				require.Equal(t, end, slices.Min(k.wait()))
				require.Equal(t, 1, k.at(end))
			})
		})
	}
}

// The probe is told to wait again: nobody else has been sent.
func TestTheProbeIsHeldAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCooldown(t, cooldown.Config{MaxWait: -1})
		c.Hold(t.Context(), key, 3*time.Second)
		var k crowd
		k.send(t.Context(), c, 260, func(i int) core.Outcome {
			slow(i)
			if i == 0 {
				c.Hold(t.Context(), key, 30*time.Second)
				return core.Success // of a time that is over
			}
			return core.Success
		})
		starts := k.wait()
		require.Equal(t, 3*time.Second, starts[0])
		require.Equal(t, 33100*time.Millisecond, starts[1])
		require.Equal(t, 1, k.at(starts[1]))
		require.Equal(t, 2, k.at(starts[1]+100*time.Millisecond))
	})
}

// The wake-up that was set for a slow probe is not the one after its answer.
func TestAHoldDuringTheProbeIsServedOnTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCooldown(t, cooldown.Config{MaxWait: -1, ProbeTimeout: time.Hour})
		c.Hold(t.Context(), key, time.Second)
		time.Sleep(time.Second)
		p := acquire(t, c)
		var k crowd
		k.send(t.Context(), c, 1, slow)
		time.Sleep(time.Second)
		c.Hold(t.Context(), key, 2*time.Second)
		p.Done(core.Failure)
		require.Equal(t, []time.Duration{3 * time.Second}, k.wait())
	})
}

func TestAFailureHoldsAsLongAgain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ hold, again time.Duration }{
		{3 * time.Second, 3 * time.Second},
		{time.Millisecond, time.Second},
		{time.Hour, time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			gate := newCooldown(t, cooldown.Config{MaxHold: time.Minute})
			gate.Hold(t.Context(), key, c.hold)
			until, held := gate.Until(key)
			require.True(t, held)
			time.Sleep(time.Until(until))
			for range 3 {
				p := acquire(t, gate)
				require.Zero(t, p.Waited())
				p.Done(core.Failure)
				until, held := gate.Until(key)
				require.True(t, held)
				require.Equal(t, c.again, time.Until(until))
				time.Sleep(c.again)
			}
		})
	}
}

func TestACallOfBeforeTheHoldChangesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCooldown(t, cooldown.Config{MaxWait: -1})
		c.Hold(t.Context(), key, time.Second)
		time.Sleep(time.Second)
		probe := acquire(t, c)
		probe.Done(core.Success) // and all is as before
		probe.Done(core.Success)
		free := acquire(t, c)
		require.Zero(t, c.Stats().Keys)
		c.Hold(t.Context(), key, time.Second)
		free.Done(core.Success)
		time.Sleep(time.Second)
		probe = acquire(t, c)
		c.Hold(t.Context(), key, 5*time.Second)
		probe.Done(core.Success)
		var k crowd
		k.send(t.Context(), c, 9, slow)
		k.wait()
		require.Equal(t, 1, k.at(5*time.Second))
		require.Equal(t, 2, k.at(5100*time.Millisecond))
	})
}

func TestAProbeThatSaysNothingHandsOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCooldown(t, cooldown.Config{})
		c.Hold(t.Context(), key, time.Second)
		var k crowd
		k.send(t.Context(), c, 3, func(i int) core.Outcome {
			slow(i)
			return []core.Outcome{core.Ignored, core.Outcome(77), core.Success}[i]
		})
		require.Equal(t, []time.Duration{1000 * time.Millisecond, 1100 * time.Millisecond, 1200 * time.Millisecond}, k.wait())
		require.Zero(t, c.Stats().Keys)
	})
}

func TestAProbeThatHangsHoldsOthersBackForItsTimeOnly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCooldown(t, cooldown.Config{ProbeTimeout: 2 * time.Second})
		c.Hold(t.Context(), key, time.Second)
		time.Sleep(time.Second)
		hung := acquire(t, c)
		start := time.Now()
		second := acquire(t, c)
		require.Equal(t, 2*time.Second, time.Since(start))
		require.Equal(t, 2*time.Second, second.Waited())
		require.False(t, hung.Ready())
		require.True(t, second.Ready())
		time.Sleep(time.Second)
		hung.Done(core.Success) // it came through after all: there is room for one more
		third := acquire(t, c)
		require.Zero(t, third.Waited())
		second.Done(core.Success)
		third.Done(core.Success)
		require.Equal(t, cooldown.Stats{Holds: 1, Resumed: 1, Waited: 1, Overdue: 1}, c.Stats())
	})
}

func TestACallThatTookTooLongStillTellsHowItEnded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCooldown(t, cooldown.Config{ProbeTimeout: 2 * time.Second})
		c.Hold(t.Context(), key, time.Minute)
		time.Sleep(time.Minute)
		p := acquire(t, c)
		time.Sleep(3 * time.Second)
		p.Done(core.Success)
		require.Equal(t, cooldown.Stats{Holds: 1, Resumed: 1, Overdue: 1}, c.Stats())
	})
}

func TestALongCallThatSaidNothingIsFollowedByAProbe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCooldown(t, cooldown.Config{})
		c.Hold(t.Context(), key, time.Second)
		time.Sleep(time.Second)
		p := acquire(t, c)
		time.Sleep(5 * time.Second)
		p.Done(core.Ignored)
		p = acquire(t, c)
		require.True(t, p.AfterHold())
		p.Done(core.Success)
	})
}

func TestRejectedAtOnceWhenTheWaitIsTooLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCooldown(t, cooldown.Config{Name: "n", MaxWait: 5 * time.Second})
		start := time.Now()
		c.Hold(t.Context(), key, 6*time.Second)
		_, err := c.Acquire(t.Context(), key)
		require.ErrorIs(t, err, core.ErrRejected)
		require.ErrorIs(t, err, cooldown.ErrHeld)
		held, ok := errors.AsType[*cooldown.HeldError](err)
		require.True(t, ok)
		require.Equal(t, key, held.Key)
		require.EqualError(t, err, "cooldown: n: held for another 6s")
		require.Zero(t, time.Since(start))
		time.Sleep(time.Second)
		wait, ok := core.RetryAfter(err)
		require.True(t, ok)
		require.Equal(t, 5*time.Second, wait, "what is left now")

		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		defer cancel()
		_, err = c.Acquire(ctx, key)
		require.ErrorIs(t, err, cooldown.ErrHeld)
		require.Equal(t, time.Second, time.Since(start))
		p := acquire(t, c) // exactly MaxWait
		require.Equal(t, 6*time.Second, time.Since(start))

		_, err = c.Acquire(t.Context(), key) // the probe takes too long
		require.EqualError(t, err, "cooldown: n: no call admitted in time")
		require.Equal(t, 11*time.Second, time.Since(start))
		p.Done(core.Success)
		require.EqualValues(t, 3, c.Stats().Rejected)
	})
}

func TestRejectedWhenTheHoldBecomesTooLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCooldown(t, cooldown.Config{})
		start := time.Now()
		c.Hold(t.Context(), key, 5*time.Second)
		time.AfterFunc(time.Second, func() { c.Hold(t.Context(), key, 9*time.Second) })
		time.AfterFunc(2*time.Second, func() { c.Hold(t.Context(), key, 30*time.Second) })
		_, err := c.Acquire(t.Context(), key)
		require.ErrorIs(t, err, cooldown.ErrHeld)
		wait, _ := core.RetryAfter(err)
		require.Equal(t, 30*time.Second, wait)
		require.Equal(t, 2*time.Second, time.Since(start))
	})
}

func TestTheQueueIsBounded(t *testing.T) {
	t.Parallel()
	for most, want := range map[int]int{3: 3, 0: cooldown.DefaultMaxQueue, -1: 0} {
		synctest.Test(t, func(t *testing.T) {
			c := newCooldown(t, cooldown.Config{MaxQueue: most})
			c.Hold(t.Context(), key, time.Second)
			var k crowd
			k.send(t.Context(), c, want+2, func(int) core.Outcome { return core.Success })
			synctest.Wait()
			require.Equal(t, want, c.Stats().Waiting)
			require.Len(t, k.wait(), want)
			require.Len(t, k.errs, 2)
		})
	}
}

func TestAWaiterThatLeavesHandsOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCooldown(t, cooldown.Config{})
		c.Hold(t.Context(), key, 3*time.Second)
		ctx, cancel := context.WithCancelCause(t.Context())
		gone := errors.New("gone")
		var first, others crowd
		first.send(ctx, c, 1, slow)
		synctest.Wait()
		others.send(t.Context(), c, 3, slow)
		time.Sleep(time.Second)
		cancel(gone)
		require.Empty(t, first.wait())
		require.Equal(t, []error{gone}, first.errs)
		require.Equal(t, 3*time.Second, slices.Min(others.wait()))
		_, err := c.Acquire(ctx, key)
		require.NoError(t, err, "nothing is held")
		c.Hold(t.Context(), key, time.Second)
		_, err = c.Acquire(ctx, key)
		require.ErrorIs(t, err, gone)
		require.EqualValues(t, 1, c.Stats().Canceled)
	})
}

// dying is a context that ends the goroutine that waits for it.
type dying struct {
	context.Context
	after *atomic.Int32
}

func (d dying) Done() <-chan struct{} {
	if d.after.Add(-1) < 0 {
		runtime.Goexit()
	}
	return nil
}

func TestAWaiterWhoseGoroutineEndsHandsOver(t *testing.T) {
	t.Parallel()
	for rounds := range 3 {
		synctest.Test(t, func(t *testing.T) {
			c := newCooldown(t, cooldown.Config{})
			c.Hold(t.Context(), key, time.Second)
			var after atomic.Int32
			after.Store(int32(rounds))
			var k crowd
			k.send(dying{t.Context(), &after}, c, 1, slow)
			synctest.Wait()
			for range rounds {
				c.Hold(t.Context(), key, time.Second+time.Duration(rounds)) // wakes it
				synctest.Wait()
			}
			p := acquire(t, c)
			p.Done(core.Success)
			k.wait()
			require.Zero(t, c.Stats().Waiting)
			require.Zero(t, c.Stats().Keys)
		})
	}
}

// One that was admitted at the moment at which it left gives its place to the next.
func TestAWaiterThatIsAdmittedWhileItLeavesHandsOver(t *testing.T) {
	t.Parallel()
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			c := newCooldown(t, cooldown.Config{})
			c.Hold(t.Context(), key, time.Second)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			var leaving, staying crowd
			leaving.send(ctx, c, 5, func(int) core.Outcome { return core.Ignored })
			synctest.Wait()
			staying.send(t.Context(), c, 1, slow)
			require.Equal(t, []time.Duration{time.Second}, staying.wait())
			leaving.wait()
			require.Zero(t, c.Stats().Waiting)
		})
	}
}

func TestReady(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCooldown(t, cooldown.Config{ProbeTimeout: 3 * time.Second})
		require.True(t, new(cooldown.Permit).Ready())
		free := acquire(t, c)
		require.True(t, free.Ready())
		c.Hold(t.Context(), "other", time.Hour)
		require.True(t, free.Ready())
		beside := acquire(t, c)
		require.True(t, beside.Ready())
		c.Hold(t.Context(), key, time.Second)
		require.False(t, free.Ready())
		require.False(t, beside.Ready())
		time.Sleep(time.Second)
		require.False(t, free.Ready(), "a probe has to go first")
		probe := acquire(t, c)
		require.True(t, probe.Ready())
		require.False(t, free.Ready())
		c.Hold(t.Context(), key, time.Second)
		require.False(t, probe.Ready())
		probe.Done(core.Ignored)
		time.Sleep(time.Second)
		probe = acquire(t, c)
		time.Sleep(3 * time.Second)
		require.False(t, probe.Ready(), "another one may be under way")
		probe.Done(core.Ignored)
		probe = acquire(t, c)
		probe.Done(core.Success)
		require.True(t, free.Ready(), "all is as before")
	})
}

func TestRelease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCooldown(t, cooldown.Config{MaxWait: -1})
		require.False(t, c.Release(key))
		_, held := c.Until(key)
		require.False(t, held)
		c.Hold(t.Context(), key, 3*time.Minute)
		var k crowd
		k.send(t.Context(), c, 3, slow)
		time.Sleep(time.Second)
		until, held := c.Until(key)
		require.True(t, held)
		require.Equal(t, 179*time.Second, time.Until(until))
		require.True(t, c.Release(key))
		_, held = c.Until(key)
		require.False(t, held)
		require.False(t, c.Release(key))
		k.wait()
		require.Equal(t, 1, k.at(time.Second))
		require.Equal(t, 2, k.at(1100*time.Millisecond))
	})
}

func TestKeysAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCooldown(t, cooldown.Config{MaxWait: -1})
		for i := range 100 {
			c.Hold(t.Context(), strconv.Itoa(i), time.Second)
		}
		require.Equal(t, 100, c.Stats().Keys)
		time.Sleep(2*time.Second - 1)
		require.Equal(t, 100, c.Stats().Keys, "a probe goes first, for as long as the hold was")
		time.Sleep(time.Nanosecond)
		p, err := c.Acquire(t.Context(), "1")
		require.NoError(t, err)
		q, err := c.Acquire(t.Context(), "1")
		require.NoError(t, err)
		require.Zero(t, p.Waited()+q.Waited())
		require.Zero(t, c.Stats().Keys)
	})
}

// Also where one that is not forgotten yet was over before.
func TestAKeyIsForgottenInItsOwnTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCooldown(t, cooldown.Config{})
		c.Hold(t.Context(), "other", 10*time.Second)
		time.Sleep(9500 * time.Millisecond)
		c.Hold(t.Context(), key, time.Second)
		time.Sleep(2 * time.Second)
		p := acquire(t, c)
		require.False(t, p.AfterHold())
		require.Equal(t, 1, c.Stats().Keys)
	})
}

func TestAtMaxKeysTheHoldThatEndsFirstIsForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCooldown(t, cooldown.Config{MaxKeys: 3, MaxWait: -1})
		for i, k := range []string{"4", "2", "3"} {
			d, err := strconv.Atoi(k)
			require.NoError(t, err)
			c.Hold(t.Context(), k, time.Duration(d)*time.Minute)
			require.Equal(t, i+1, c.Stats().Keys)
		}
		start := time.Now()
		var waits sync.WaitGroup
		waits.Go(func() {
			p, err := c.Acquire(t.Context(), "2")
			require.NoError(t, err)
			p.Done(core.Failure) // says nothing
		})
		synctest.Wait()
		c.Hold(t.Context(), "1", time.Minute)
		_, held := c.Until("1")
		require.False(t, held, "it would have ended first")
		c.Hold(t.Context(), "5", 5*time.Minute)
		waits.Wait()
		require.Zero(t, time.Since(start), "it was forgotten")
		for k, want := range map[string]bool{"2": false, "3": true, "4": true, "5": true} {
			_, held := c.Until(k)
			require.Equal(t, want, held, k)
		}
		s := c.Stats()
		require.EqualValues(t, 2, s.Evicted)
		require.Equal(t, 3, s.Keys)
	})
}

func TestClose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := &core.Registry{}
		c, err := cooldown.New(cooldown.Config{Name: "n", Registry: registry, MaxWait: -1})
		require.NoError(t, err)
		_, err = cooldown.New(cooldown.Config{Name: "n", Registry: registry})
		require.ErrorContains(t, err, "already registered")
		got, ok := core.Lookup[*cooldown.Cooldown](registry, "n")
		require.True(t, ok)
		require.Same(t, c, got)
		require.Equal(t, "n", c.Config().Name)

		c.Hold(t.Context(), key, time.Second)
		var k crowd
		k.send(t.Context(), c, 3, slow)
		synctest.Wait()
		require.NoError(t, c.Close())
		require.NoError(t, c.Close())
		require.Empty(t, k.wait())
		require.Len(t, k.errs, 3)
		for _, err := range k.errs {
			require.ErrorIs(t, err, core.ErrClosed)
		}
		c.Hold(t.Context(), key, time.Second)
		_, err = c.Acquire(t.Context(), key)
		require.ErrorIs(t, err, core.ErrClosed)
		require.ErrorIs(t, err, core.ErrRejected, "no call is made")
		require.Equal(t, cooldown.Stats{Holds: 1, Canceled: 3}, c.Stats())
		_, ok = core.Lookup[*cooldown.Cooldown](registry, "n")
		require.False(t, ok)
	})
}

func TestEvents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c *cooldown.Cooldown
		var got []string
		start := time.Now()
		c = newCooldown(t, cooldown.Config{Registry: eventtest.Registry(func(ctx context.Context, e registry.Event) {
			c.Stats() // no lock is held
			require.Equal(t, t.Context(), ctx)
			require.Equal(t, key, e.Key)
			for i, a := range e.Attrs {
				if a.Value.Kind() == slog.KindTime {
					e.Attrs[i].Value = slog.DurationValue(a.Value.Time().Sub(start))
				}
			}
			got = append(got, fmt.Sprint(e.Text, e.Attrs))
		})})
		c.Hold(t.Context(), key, time.Second)
		p := acquire(t, c)
		p.Done(core.Success)
		c.Hold(t.Context(), key, 11*time.Second)
		_, err := c.Acquire(t.Context(), key)
		require.ErrorIs(t, err, core.ErrRejected)
		require.Equal(t, []string{
			"calls are held back[until=1s]", "call was held back[waited=1s]", "calls are made again[held_until=1s]",
			"calls are held back[until=12s]", "call rejected, since the key is held[waited=0s]",
		}, got)
	})
}

func TestConfigIsValidated(t *testing.T) {
	t.Parallel()
	_, err := cooldown.New(cooldown.Config{MaxHold: -1, ProbeTimeout: -2, MaxKeys: -3})
	require.ErrorIs(t, err, core.ErrConfig)
	for _, want := range []string{
		"cooldown.Config.MaxHold = -1ns: must be > 0 and <= 8760h0m0s (0 means 10m0s)",
		"cooldown.Config.ProbeTimeout = -2ns: must be > 0 (0 means 10s)",
		"cooldown.Config.MaxKeys = -3: must be > 0 (0 means 65536)",
	} {
		require.ErrorContains(t, err, want)
	}
	_, err = cooldown.New(cooldown.Config{MaxHold: cooldown.LongestHold + 1})
	require.ErrorIs(t, err, core.ErrConfig)
	base := cooldown.Config{Name: "a"}
	require.Equal(t, "b", with(base, func(c *cooldown.Config) { c.Name = "b" }).Name)
	require.Equal(t, "a", base.Name)
}

//nolint:paralleltest // counts allocations
func TestNeitherFreeNorRejectedAllocates(t *testing.T) {
	c := newCooldown(t, cooldown.Config{})
	ctx := t.Context()
	free := func() {
		p, err := c.Acquire(ctx, key)
		if err != nil || !p.Ready() {
			t.Fatal(err)
		}
		p.Done(core.Success)
	}
	require.Less(t, mallocs(10_000, free), uint64(100), "nothing is held")
	c.Hold(ctx, "other", time.Minute)
	require.Less(t, mallocs(10_000, free), uint64(100), "something else is held")
	c.Hold(ctx, key, time.Minute)
	require.Less(t, mallocs(10_000, func() {
		if _, err := c.Acquire(ctx, key); err == nil {
			t.Fatal("held")
		}
	}), uint64(100), "rejected")
}

// mallocs counts what f allocates in n runs. It must not run beside other tests.
func mallocs(n int, f func()) uint64 {
	f()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range n {
		f()
	}
	runtime.ReadMemStats(&after)
	return after.Mallocs - before.Mallocs
}

func TestSetConfig(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r core.Registry
		c := core.Must(cooldown.New(cooldown.Config{Name: "vendor", Registry: &r}))
		c.Hold(t.Context(), "k", time.Hour) // cut to DefaultMaxHold
		require.NoError(t, c.SetConfig(cooldown.Config{MaxHold: time.Minute, MaxWait: time.Second}))
		until, held := c.Until("k")
		require.True(t, held)
		require.Equal(t, cooldown.DefaultMaxHold, time.Until(until), "it stays held")
		c.Hold(t.Context(), "other", time.Hour)
		until, _ = c.Until("other")
		require.Equal(t, time.Minute, time.Until(until))
		require.Equal(t, []any{"vendor", &r, time.Second}, []any{c.Config().Name, c.Config().Registry, c.Config().MaxWait})
		require.EqualError(t, c.SetConfig(cooldown.Config{Name: "x", MaxHold: -1}),
			"cooldown.Config.MaxHold = -1ns: must be > 0 and <= 8760h0m0s (0 means 10m0s)\ncooldown.Config.Name = x: must stay vendor")
		require.Equal(t, time.Minute, c.Config().MaxHold)
	})
}

func TestAtMaxKeysWhatIsStaleGoesFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := core.Must(cooldown.New(cooldown.Config{MaxKeys: 3}))
		c.Hold(t.Context(), "used", time.Second)
		time.Sleep(time.Second)
		p, err := c.Acquire(t.Context(), "used") // its probe runs
		require.NoError(t, err)
		require.True(t, p.Probe())
		c.Hold(t.Context(), "stale", time.Second)
		c.Hold(t.Context(), "long", time.Hour)
		time.Sleep(3 * time.Second)
		c.Hold(t.Context(), "new", time.Hour)
		require.Zero(t, c.Stats().Evicted)
		require.True(t, p.Ready())
		p.Done(core.Failure)
		_, held := c.Until("used")
		require.True(t, held)
	})
}
