package cooldown_test

import (
	"context"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/cooldown"
	"github.com/gresil/gresil/internal/escalating"
	"github.com/gresil/gresil/internal/eventtest"
	"github.com/gresil/gresil/internal/registry"
)

func TestAnAnswerHoldsItsKeyUnlessItIsLate(t *testing.T) {
	t.Parallel()
	second := func(ctx context.Context, c *cooldown.Cooldown) { c.Hold(ctx, key, time.Second) }
	succeed := func(t *testing.T, c *cooldown.Cooldown) {
		t.Helper()
		p := acquire(t, c)
		p.Done(core.Success)
	}
	for name, c := range map[string]struct {
		between func(t *testing.T, c *cooldown.Cooldown) // Acquire and Hold
		held    time.Duration                            // after a Hold of a minute
		holds   uint64
	}{
		"at once":    {func(*testing.T, *cooldown.Cooldown) {}, time.Minute, 1},
		"while held": {func(t *testing.T, c *cooldown.Cooldown) { second(t.Context(), c) }, time.Minute, 1}, //nolint:thelper // it is a part of the test
		"while it is longer": {func(t *testing.T, c *cooldown.Cooldown) { //nolint:thelper // it is a part of the test
			c.Hold(t.Context(), key, 2*time.Minute)
		}, 2 * time.Minute, 1},
		"after a hold": {func(t *testing.T, c *cooldown.Cooldown) { second(t.Context(), c); time.Sleep(time.Second) }, 0, 1}, //nolint:thelper // it is a part of the test
		"after it was released": {func(t *testing.T, c *cooldown.Cooldown) { //nolint:thelper // it is a part of the test
			second(t.Context(), c)
			require.True(t, c.Release(key))
		}, 0, 1},
		"after the recovery": {func(t *testing.T, c *cooldown.Cooldown) { //nolint:thelper // it is a part of the test
			second(t.Context(), c)
			time.Sleep(time.Second)
			succeed(t, c)
			require.Zero(t, c.Stats().Keys)
		}, 0, 1},
		"after nobody came": {func(t *testing.T, c *cooldown.Cooldown) { //nolint:thelper // it is a part of the test
			second(t.Context(), c)
			time.Sleep(time.Hour)
			require.Zero(t, c.Stats().Keys)
		}, 0, 1},
		"after holds of others": {func(t *testing.T, c *cooldown.Cooldown) { //nolint:thelper // it is a part of the test
			c.Hold(t.Context(), "other", time.Second)
			time.Sleep(time.Hour)
		}, time.Minute, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, probe := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					gate := newCooldown(t, cooldown.Config{})
					if probe {
						second(t.Context(), gate)
						time.Sleep(time.Second)
					}
					p := acquire(t, gate)
					require.Equal(t, probe, p.Probe())
					before := gate.Stats().Holds
					c.between(t, gate)
					p.Hold(0)
					p.Hold(-1)
					p.Hold(time.Minute)
					p.Done(core.Failure)
					p.Hold(time.Hour) // which is too late in any case
					until, _ := gate.Until(key)
					require.Equal(t, c.held, max(0, time.Until(until)), "probe: %t", probe)
					require.Equal(t, before+c.holds, gate.Stats().Holds, "probe: %t", probe)
				})
			}
		})
	}
}

// A call can wait after its admission, for a connection or a limiter: Ready is right before it.
func TestAnAnswerHoldsItsKeyIfTheCallWasReadyAfterTheRecovery(t *testing.T) {
	t.Parallel()
	for _, again := range []time.Duration{0, time.Hour} { // forgotten
		synctest.Test(t, func(t *testing.T) {
			c := newCooldown(t, cooldown.Config{})
			early, late := acquire(t, c), acquire(t, c)
			c.Hold(t.Context(), key, time.Second)
			time.Sleep(time.Second + again)
			if again == 0 {
				probe := acquire(t, c)
				probe.Done(core.Success)
			}
			require.True(t, early.Ready())
			late.Hold(time.Minute)
			_, held := c.Until(key)
			require.False(t, held)
			early.Hold(time.Minute)
			until, _ := c.Until(key)
			require.Equal(t, time.Minute, time.Until(until))
			require.False(t, early.Ready())
		})
	}
}

// Nothing but a hold makes the answer of a call of the ramp late.
func TestAnAnswerOfTheRampHoldsAgain(t *testing.T) {
	t.Parallel()
	succeed := func(t *testing.T, c *cooldown.Cooldown, n int) {
		t.Helper()
		for range n {
			p := acquire(t, c)
			p.Done(core.Success)
		}
	}
	for name, c := range map[string]struct {
		between func(t *testing.T, c *cooldown.Cooldown) // the call and its answer
		late    bool
	}{
		"at once": {func(*testing.T, *cooldown.Cooldown) {}, false},
		"ramp ended": {func(t *testing.T, c *cooldown.Cooldown) { //nolint:thelper // it is a part of the test
			succeed(t, c, 63)
			require.Zero(t, c.Stats().Keys)
		}, false},
		"given up, empty queue": {func(t *testing.T, c *cooldown.Cooldown) { //nolint:thelper // it is a part of the test
			time.Sleep(30 * time.Second)
			succeed(t, c, 1)
			require.Zero(t, c.Stats().Keys)
		}, false},
		"given up, forgotten": {func(t *testing.T, c *cooldown.Cooldown) { //nolint:thelper // it is a part of the test
			time.Sleep(time.Hour)
			succeed(t, c, 1)
			require.Zero(t, c.Stats().Keys)
		}, false},
		"released": {func(t *testing.T, c *cooldown.Cooldown) { require.False(t, c.Release(key)) }, false}, //nolint:thelper // it is a part of the test
		"SetConfig": {func(t *testing.T, c *cooldown.Cooldown) { //nolint:thelper // it is a part of the test
			require.NoError(t, c.SetConfig(cooldown.Config{MaxWait: time.Hour}))
		}, false},
		"other recovered": {func(t *testing.T, c *cooldown.Cooldown) { //nolint:thelper // it is a part of the test
			c.Hold(t.Context(), "other", time.Second)
			time.Sleep(time.Second)
			p, err := c.Acquire(t.Context(), "other")
			require.NoError(t, err)
			p.Done(core.Success)
		}, false},
		"held since": {func(t *testing.T, c *cooldown.Cooldown) { //nolint:thelper // it is a part of the test
			succeed(t, c, 63)
			c.Hold(t.Context(), key, time.Second)
			time.Sleep(time.Second)
		}, true},
		"held and recovered since": {func(t *testing.T, c *cooldown.Cooldown) { //nolint:thelper // it is a part of the test
			succeed(t, c, 63)
			c.Hold(t.Context(), key, time.Second)
			time.Sleep(time.Second)
			succeed(t, c, 1)
			require.Zero(t, c.Stats().Keys)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for how, answer := range map[string]struct {
				end  func(p *cooldown.Permit)
				held time.Duration
			}{
				"Hold":   {func(p *cooldown.Permit) { p.Hold(time.Minute); p.Done(core.Failure) }, time.Minute},
				"Failed": {func(p *cooldown.Permit) { p.Failed(time.Minute) }, time.Minute},
				"Done":   {func(p *cooldown.Permit) { p.Done(core.Failure) }, 20 * time.Second}, // as long again
			} {
				synctest.Test(t, func(t *testing.T) {
					gate := newCooldown(t, cooldown.Config{MaxWait: time.Hour})
					gate.Hold(t.Context(), key, 20*time.Second)
					time.Sleep(20 * time.Second)
					succeed := acquire(t, gate)
					var p cooldown.Permit
					var wg sync.WaitGroup
					wg.Go(func() { p = acquire(t, gate) })
					synctest.Wait()
					succeed.Done(core.Success) // which makes room for two
					wg.Wait()
					require.True(t, p.Probe())
					c.between(t, gate)
					answer.end(&p)
					until, _ := gate.Until(key)
					want := answer.held
					if c.late {
						want = 0
					}
					require.Equal(t, want, max(0, time.Until(until)), how)
				})
			}
		})
	}
}

// 60 calls in flight to a vendor of 100 a second: none is sent in a pause that was told.
func TestNoCallInsideAToldPause(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		synctest.Test(t, func(t *testing.T) {
			c, v := newCooldown(t, cooldown.Config{MaxWait: time.Hour}), escalating.NewTelling(seed)
			var wg sync.WaitGroup
			for range 60 {
				wg.Go(func() {
					for range 50 {
						p := acquire(t, c)
						wait := v.Call()
						p.Hold(wait)
						p.Done(core.Success)
					}
				})
			}
			wg.Wait()
			require.Positive(t, v.Counts().Refused)
			require.Zero(t, v.Counts().Inside, "seed %d: %+v", seed, v.Counts())
		})
	}
}

func TestOfProbesThatFailTogetherTheFirstHolds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCooldown(t, cooldown.Config{})
		c.Hold(t.Context(), key, time.Minute)
		time.Sleep(time.Minute)
		probe := acquire(t, c)
		var second cooldown.Permit
		var wg sync.WaitGroup
		wg.Go(func() { second = acquire(t, c) })
		synctest.Wait()
		probe.Done(core.Success) // which makes room for two
		wg.Wait()
		third := acquire(t, c)
		require.True(t, second.Probe() && third.Probe())
		second.Failed(3 * time.Second)
		time.Sleep(time.Second)
		third.Failed(time.Hour)
		second.Failed(time.Hour)
		until, held := c.Until(key)
		require.True(t, held)
		require.Equal(t, 2*time.Second, time.Until(until))
		require.EqualValues(t, 2, c.Stats().Holds)
	})
}

// More keys have recovered than are remembered: the answer holds its key.
func TestAnAnswerCountsWhereTheRecoveryOfItsKeyIsForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCooldown(t, cooldown.Config{})
		comeBack := func(key string) {
			c.Hold(t.Context(), key, time.Second)
			time.Sleep(time.Second)
			p, err := c.Acquire(t.Context(), key)
			require.NoError(t, err)
			p.Done(core.Success)
		}
		early := acquire(t, c)
		comeBack(key)
		for i := range 255 {
			comeBack(strconv.Itoa(i))
		}
		early.Hold(time.Minute)
		_, held := c.Until(key)
		require.False(t, held)
		comeBack("one more")
		early.Hold(time.Minute)
		_, held = c.Until(key)
		require.True(t, held)
	})
}

func TestObserverThatEndsTheGoroutine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		on := true
		c := newCooldown(t, cooldown.Config{ProbeTimeout: time.Hour, Registry: eventtest.Registry(func(_ context.Context, e registry.Event) {
			if on && e.Call {
				runtime.Goexit()
			}
		})})
		c.Hold(t.Context(), key, time.Second)
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = c.Acquire(t.Context(), key) })
		wg.Wait()
		on = false
		p := acquire(t, c)
		require.Zero(t, p.Waited())
		p.Done(core.Success)
		require.Equal(t, cooldown.Stats{Holds: 1, Resumed: 1, Waited: 1}, c.Stats())
	})
}

func TestAKeyThatIsKeptIsForgottenOnlyAfterASuccess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := core.Must(cooldown.New(cooldown.Config{Keep: true}))
		c.Hold(t.Context(), "k", time.Second)
		time.Sleep(time.Hour)
		for _, outcome := range []core.Outcome{core.Ignored, core.Success} {
			p := core.Must(c.Acquire(t.Context(), "k"))
			require.True(t, p.Probe())
			p.Done(outcome)
			time.Sleep(time.Hour)
		}
		p := core.Must(c.Acquire(t.Context(), "k"))
		require.False(t, p.Probe())
	})
}
