package breaker_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/core/breaker"
)

func TestSetConfigKeepsTheOldOneWhereTheNewOneIsBad(t *testing.T) {
	t.Parallel()
	registry := &core.Registry{}
	old := breaker.Config{Name: "db", Registry: registry, Window: 2}
	b := newBreaker(t, old)
	for _, c := range []struct {
		cfg  breaker.Config
		want []string
	}{
		{breaker.Config{Name: "db", Registry: registry, Window: -1, Trials: -1}, []string{"breaker.Config.Window", "breaker.Config.Trials"}},
		{breaker.Config{Name: breaker.DefaultName}, []string{"breaker.Config.Name"}},
		{breaker.Config{Registry: &core.Registry{}}, []string{"breaker.Config.Registry"}},
		{breaker.Config{FailureRate: 2, Name: "x", Registry: &core.Registry{}}, []string{"breaker.Config.FailureRate", "breaker.Config.Name", "breaker.Config.Registry"}},
	} {
		err := b.SetConfig(c.cfg)
		require.ErrorIs(t, err, core.ErrConfig)
		require.ElementsMatch(t, c.want, fields(err))
		require.Equal(t, 2, b.Config().Window)
	}
	run(t, b, "SF")
	require.Equal(t, breaker.Open, b.State(), "the old one is in force")
	require.NoError(t, newBreaker(t, breaker.Config{}).SetConfig(breaker.Config{Name: breaker.DefaultName}), "the same name")
	b = newBreaker(t, with(old, func(c *breaker.Config) { c.Name = "cache" }))
	require.NoError(t, b.SetConfig(breaker.Config{Window: 3}))
	require.Equal(t, breaker.Config{Name: "cache", Registry: registry, Window: 3}, b.Config(), "what is not said stays")
	require.NoError(t, b.Close())
	_, found := core.Lookup[*breaker.Breaker](registry, "cache")
	require.False(t, found)
}

func TestSetConfigKeepsTheStateAndItsTime(t *testing.T) {
	t.Parallel()
	for state := breaker.Closed; state <= breaker.MetricsOnly; state++ {
		synctest.Test(t, func(t *testing.T) {
			var j journal
			b := newBreaker(t, breaker.Config{Window: 10, JudgeWithHistory: true, OpenDelay: backoff.Constant{Delay: 10 * second}, Registry: j.changes()})
			run(t, b, "SFS")
			require.NoError(t, b.SetState(state))
			time.Sleep(second)
			j.take()
			before := b.Snapshot()
			require.NoError(t, b.SetConfig(breaker.Config{
				Window: 4, FailureRate: 0.75, JudgeWithHistory: true, Initial: breaker.Disabled,
				OpenDelay: backoff.Constant{Delay: time.Hour},
			}))
			after := b.Snapshot()
			require.Empty(t, j.take())
			require.InDelta(t, 0.75, after.Threshold, 0)
			require.Equal(t, 4, after.MinCalls)
			before.Threshold, before.MinCalls = after.Threshold, after.MinCalls
			require.Equal(t, before, after)
			if state == breaker.Open {
				require.Equal(t, 9*second, rejected(t, b).RetryAfter())
			}
		})
	}
}

func TestSetConfigKeepsTheLastCalls(t *testing.T) {
	t.Parallel()
	b := newBreaker(t, breaker.Config{Window: 100, Initial: breaker.MetricsOnly})
	window := func(size, calls, failures int) {
		t.Helper()
		require.NoError(t, b.SetConfig(breaker.Config{Window: size}))
		s := b.Snapshot()
		require.Equal(t, []int{size, calls, failures}, []int{s.MinCalls, s.Calls, s.Failures})
	}
	for range 7 {
		run(t, b, "FFFFFFFFFFSSSSSSSSSS")
	}
	window(100, 100, 50)
	window(1000, 100, 50)
	run(t, b, "FFF") // in the order in which they came
	window(14, 14, 4)
	window(4, 4, 3)
	window(5, 4, 3)
	run(t, b, "SS")
	window(5, 5, 3)
	window(1, 1, 0)
}

func TestSetConfigKeepsTheTenthsByTheirAge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, breaker.Config{WindowTime: 10 * second, Initial: breaker.MetricsOnly})
		for range 10 {
			time.Sleep(second)
			run(t, b, "SF")
		}
		calls := func(whole time.Duration, want int) {
			t.Helper()
			require.NoError(t, b.SetConfig(breaker.Config{WindowTime: whole}))
			s := b.Snapshot()
			require.Equal(t, []int{want, want / 2}, []int{s.Calls, s.Failures})
		}
		calls(10*second, 20)
		calls(100*second, 20)
		time.Sleep(89 * second)
		calls(100*second, 20)
		calls(200*second, 20)
		time.Sleep(90 * second)
		calls(200*second, 20)
		calls(100*second, 0) // though they may be younger
		run(t, b, "SF")
		calls(10*second, 2)
		require.NoError(t, b.SetConfig(breaker.Config{Window: 10}))
		require.Zero(t, b.Snapshot().Calls, "another kind of window")
		run(t, b, "SF")
		calls(second, 0)
	})
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, breaker.Config{WindowTime: 10 * second, Initial: breaker.MetricsOnly})
		for range 10 {
			time.Sleep(second)
			run(t, b, "SF")
		}
		require.NoError(t, b.SetConfig(breaker.Config{WindowTime: 5 * second}))
		require.Equal(t, 10, b.Snapshot().Calls)
		time.Sleep(2 * second)
		require.Equal(t, 6, b.Snapshot().Calls)
	})
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, breaker.Config{WindowTime: 100 * second, Initial: breaker.MetricsOnly})
		time.Sleep(100 * second)
		run(t, b, "SF")
		time.Sleep(9 * second)
		require.NoError(t, b.SetConfig(breaker.Config{WindowTime: 10 * second}))
		require.Equal(t, 2, b.Snapshot().Calls)
		time.Sleep(second)
		require.Zero(t, b.Snapshot().Calls, "they are ten seconds old")
	})
}

func TestSetConfigTurnsSlowCallsOnAndOff(t *testing.T) {
	t.Parallel()
	for _, cfg := range []breaker.Config{{Window: 10}, {WindowTime: time.Hour, MinCalls: 10}} {
		synctest.Test(t, func(t *testing.T) {
			b := newBreaker(t, cfg)
			for range 10 {
				last(t, b, 'S', 0)
			}
			early := acquire(t, b)
			timed := with(cfg, func(c *breaker.Config) { c.SlowCall, c.SlowRate = second, 0.2 })
			require.NoError(t, b.SetConfig(timed))
			time.Sleep(time.Minute)
			early.Done(core.Success)
			require.Zero(t, b.Snapshot().Slow, "it was not timed when it began")
			last(t, b, 'S', 2*second)
			require.Equal(t, 1, b.Snapshot().Slow, "calm as it was")
			require.NoError(t, b.SetConfig(cfg))
			s := b.Snapshot()
			require.Zero(t, s.Slow)
			require.Zero(t, s.SlowThreshold)
			require.GreaterOrEqual(t, s.Calls, 10)
			late := acquire(t, b)
			require.NoError(t, b.SetConfig(timed))
			require.Zero(t, b.Snapshot().Slow, "forgotten")
			time.Sleep(2 * second)
			late.Done(core.Success)
			last(t, b, 'S', 2*second)
			require.Equal(t, 1, b.Snapshot().Slow)
			last(t, b, 'S', 2*second)
			if cfg.WindowTime == 0 {
				require.Equal(t, breaker.Open, b.State())
			}
		})
	}
}

func TestSetConfigOfTrialsBeginsThemAnew(t *testing.T) {
	t.Parallel()
	for _, trials := range []int{1, 4} {
		synctest.Test(t, func(t *testing.T) {
			b := newBreaker(t, breaker.Config{Trials: 3, MaxHalfOpen: 10 * second, Initial: breaker.HalfOpen})
			run(t, b, "S")
			old := []breaker.Permit{acquire(t, b), acquire(t, b)}
			refused(t, b)
			time.Sleep(4 * second)
			require.NoError(t, b.SetConfig(breaker.Config{Trials: 3, FailureRate: 0.75, MaxHalfOpen: 10 * second}))
			refused(t, b) // nothing has changed about them
			require.NoError(t, b.SetConfig(breaker.Config{Trials: trials, MaxHalfOpen: 10 * second}))
			var fresh []breaker.Permit
			for range trials {
				fresh = append(fresh, acquire(t, b))
			}
			refused(t, b)
			for i := range old {
				old[i].Done(core.Failure)
			}
			require.EqualValues(t, 2, b.Stats().Late)
			require.Equal(t, breaker.HalfOpen, b.State())
			time.Sleep(6*second - 1)
			require.Equal(t, breaker.HalfOpen, b.State())
			if trials == 4 {
				time.Sleep(time.Nanosecond)
				require.Equal(t, breaker.Open, b.State(), "ten seconds from when it was made half-open")
				return
			}
			fresh[0].Done(core.Success)
			require.Equal(t, breaker.Closed, b.State())
		})
	}
}

func TestSetConfigOfAGroup(t *testing.T) {
	t.Parallel()
	g := newGroup(t, breaker.Config{Window: 2}, 2)
	old := g.Get("a")
	run(t, old, "SF")
	require.ErrorIs(t, old.SetConfig(breaker.Config{}), core.ErrConfig)
	require.ErrorIs(t, g.Overflow().SetConfig(breaker.Config{}), core.ErrConfig)
	require.ErrorIs(t, g.SetConfig(breaker.Config{Window: -1}), core.ErrConfig)
	require.Equal(t, 2, g.Config().Window)
	calm := g.Get("b")
	run(t, calm, "SS")
	require.NoError(t, g.SetConfig(breaker.Config{Window: 3, Initial: breaker.MetricsOnly}))
	require.Equal(t, breaker.Open, old.State(), "the state stays")
	for _, b := range []*breaker.Breaker{old, calm, g.Overflow()} {
		require.Equal(t, 3, b.Snapshot().MinCalls)
		require.Equal(t, 3, b.Config().Window)
	}
	run(t, calm, "FF")
	require.Equal(t, breaker.Open, calm.State())
	calm.Reset()
	fresh := g.Get("c")
	require.NotSame(t, g.Overflow(), fresh)
	require.Equal(t, breaker.MetricsOnly, fresh.State())
	require.Equal(t, 3, fresh.Snapshot().MinCalls)
}

func TestSetConfigWhileBreakersAreMade(t *testing.T) {
	t.Parallel()
	g := newGroup(t, breaker.Config{}, 2000)
	var all sync.WaitGroup
	all.Go(func() {
		for i := range 2000 {
			g.Get(fmt.Sprint(i))
		}
	})
	for i := range 50 {
		require.NoError(t, g.SetConfig(breaker.Config{Window: 7 + i}))
	}
	all.Wait()
	for key, b := range g.All() {
		require.Equal(t, 56, b.Snapshot().MinCalls, key)
	}
}

// TestSetConfigUnderLoad replaces Configs while breakers are in use, and adds up.
func TestSetConfigUnderLoad(t *testing.T) {
	t.Parallel()
	configs := []breaker.Config{
		{Window: 5, Trials: 1, OpenDelay: backoff.Constant{}},
		{Window: 70, Trials: 5, SlowCall: time.Microsecond, SlowRate: 0.9, OpenDelay: backoff.Constant{}, JudgeWithHistory: true},
		{WindowTime: time.Millisecond, MinCalls: 3, Trials: 2, MaxHalfOpen: time.Millisecond, OpenDelay: backoff.Constant{}},
		{WindowTime: time.Second, MinCalls: 5, SlowCall: time.Nanosecond, TrialTimeout: time.Microsecond, OpenDelay: backoff.Constant{}, Initial: breaker.Open},
	}
	g := newGroup(t, configs[0], 20)
	var done, refused atomic.Uint64
	var calls, settings sync.WaitGroup
	stop := make(chan struct{})
	for i := range 2 {
		settings.Go(func() {
			for n := i; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				if err := g.SetConfig(configs[n%len(configs)]); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for n := range uint64(6) {
		calls.Go(func() {
			r := rand.New(rand.NewPCG(7, n))
			for range 3000 {
				p, err := g.Get(fmt.Sprint(r.IntN(15))).Acquire(t.Context())
				if err != nil {
					refused.Add(1)
					continue
				}
				p.Done(pick(r, core.Success, core.Success, core.Failure))
				done.Add(1)
			}
		})
	}
	calls.Wait()
	close(stop)
	settings.Wait()
	s := g.Stats()
	require.Equal(t, done.Load(), s.Successes+s.Failures+s.Late)
	require.Equal(t, refused.Load(), s.Rejected)
	require.NoError(t, g.SetConfig(configs[1]))
	for key, b := range g.All() {
		now := b.Snapshot()
		require.Equal(t, 70, now.MinCalls, key)
		require.Equal(t, 5, now.Trials, key)
		require.LessOrEqual(t, now.Calls, 70)
		require.LessOrEqual(t, now.Slow, now.Calls)
		require.LessOrEqual(t, now.SlowFailures, min(now.Slow, now.Failures))
	}
}

func TestSetConfigForgetsSlowTrials(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slow := breaker.Config{Trials: 4, SlowCall: second, SlowRate: 0.5, Initial: breaker.HalfOpen}
		b := newBreaker(t, slow)
		last(t, b, 'S', 2*second)
		require.InDelta(t, 1.0, b.Snapshot().SlowRate, 0)
		require.NoError(t, b.SetConfig(breaker.Config{Trials: 4}))
		require.Zero(t, b.Snapshot().SlowRate)
		require.NoError(t, b.SetConfig(slow))
		last(t, b, 'S', 2*second)
		require.Equal(t, breaker.HalfOpen, b.State(), "one of four")
		require.InDelta(t, 0.5, b.Snapshot().SlowRate, 0)
	})
}
