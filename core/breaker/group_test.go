package breaker_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/breaker"
)

func newGroup(t *testing.T, each breaker.Config, maxKeys int) *breaker.Group {
	t.Helper()
	g, err := breaker.NewGroup(each, maxKeys)
	require.NoError(t, err)
	return g
}

func keys(g *breaker.Group) []string { return slices.Collect(maps.Keys(maps.Collect(g.All()))) }

func TestKeysAreIndependent(t *testing.T) {
	t.Parallel()
	g := newGroup(t, breaker.Config{Name: "hosts", Window: 1}, 0)
	run(t, g.Get("a"), "F")
	open := rejected(t, g.Get("a"))
	require.Equal(t, []string{"hosts", "a"}, []string{open.Name, open.Key})
	require.Equal(t, "breaker: hosts: a: open for another 1m", open.Error())
	run(t, g.Get("b"), "SSS")
	require.Same(t, g.Get("b"), g.Get("b"))
	require.Equal(t, "b", g.Get("b").Key())
	require.Equal(t, "hosts", g.Get("b").Name())
	s := g.Stats()
	require.Equal(t, breaker.GroupStats{Stats: breaker.Stats{Successes: 3, Failures: 1, Rejected: 1, Opened: 1}, Keys: 2, States: [6]int{breaker.Closed: 1, breaker.Open: 1}}, s)
}

func TestAnOpenBreakerIsNeverDropped(t *testing.T) {
	t.Parallel()
	checkOpenIsKept(t, 10_000)
}

func checkOpenIsKept(t *testing.T, hosts int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, breaker.Config{Window: 2, MinCalls: 2}, 8)
		run(t, g.Get("open"), "FF")
		require.NoError(t, g.Get("forced").SetState(breaker.ForcedOpen))
		require.NoError(t, g.Get("disabled").SetState(breaker.Disabled))
		require.NoError(t, g.Get("metrics").SetState(breaker.MetricsOnly))
		for i := range hosts {
			run(t, g.Get("host-"+strconv.Itoa(i)), "S")
		}
		require.Len(t, keys(g), 8)
		require.Subset(t, keys(g), []string{"open", "forced", "disabled", "metrics"})
		refused(t, g.Get("open"))
		s := g.Stats()
		require.EqualValues(t, hosts-4, s.Evicted)
		require.EqualValues(t, hosts, s.Successes, "those of dropped ones too")
		require.Zero(t, s.Overflowed)
	})
}

func TestGroupDropsWhatIsLeastWorthFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, breaker.Config{Window: 4}, 4)
		run(t, g.Get("opened"), "FFFF")
		run(t, g.Get("failures"), "SF")
		run(t, g.Get("idle"), "SS")
		run(t, g.Get("busy"), "SS")
		time.Sleep(breaker.DefaultOpenTime)
		g.Get("1") // the first round forgets who was asked for; then idle goes, as the first without a failure
		require.ElementsMatch(t, []string{"opened", "failures", "busy", "1"}, keys(g))
		g.Get("busy")
		g.Get("2")
		require.ElementsMatch(t, []string{"opened", "failures", "busy", "2"}, keys(g))
		run(t, g.Get("busy"), "F")
		run(t, g.Get("2"), "F")
		g.Get("busy")
		g.Get("3")
		require.Contains(t, keys(g), "opened")
		require.Len(t, keys(g), 4)
		for key, b := range g.All() {
			if key != "opened" {
				require.NoError(t, b.OpenFor(second))
			}
		}
		g.Get("4") // its time is over, that of the others is not
		require.NotContains(t, keys(g), "opened")
	})
}

func TestGroupOverflowProtectsToo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, breaker.Config{Window: 2}, 2)
		run(t, g.Get("a"), "FF")
		run(t, g.Get("b"), "FF")
		require.Same(t, g.Overflow(), g.Get("c"))
		require.Same(t, g.Overflow(), g.Get("d"))
		run(t, g.Get("c"), "F")
		run(t, g.Get("d"), "F")
		refused(t, g.Get("e"))
		refused(t, g.Get("a"))
		s := g.Stats()
		require.Equal(t, []int{2, 2}, []int{s.Keys, s.States[breaker.Open]})
		require.EqualValues(t, 5, s.Overflowed)
		require.EqualValues(t, 6, s.Failures)
		time.Sleep(time.Minute)
		require.NotSame(t, g.Overflow(), g.Get("c"))
		require.Equal(t, 1, g.Stats().States[breaker.HalfOpen], "not asked, but its time is over")
	})
}

func TestGroupAnnouncesTheKey(t *testing.T) {
	t.Parallel()
	var j journal
	g := newGroup(t, breaker.Config{Name: "hosts", Window: 1}, 0)
	cancel := g.Observe(breaker.Hooks{
		StateChanged: func(_ context.Context, i breaker.Info) { j.add("%s %s %v", i.Name, i.Key, i.State) },
		Recorded:     func(_ context.Context, i breaker.Info) { j.add("%s %s %v", i.Name, i.Key, i.Outcome) },
		Rejected:     func(_ context.Context, i breaker.Info) { j.add("%s %s %v", i.Name, i.Key, i.State) },
		Reset:        func(_ context.Context, i breaker.Info) { j.add("%s %s reset", i.Name, i.Key) },
	})
	run(t, g.Get("a"), "F")
	refused(t, g.Get("a"))
	g.Get("a").Reset()
	require.Equal(t, []string{"hosts a failure", "hosts a open", "hosts a open", "hosts a reset", "hosts a closed"}, j.take())
	cancel()
	run(t, g.Get("b"), "F")
	require.Empty(t, j.take())
}

func TestGroupIsRegisteredAsOne(t *testing.T) {
	t.Parallel()
	var r core.Registry
	g := newGroup(t, breaker.Config{Name: "hosts", Registry: &r}, 0)
	require.NoError(t, g.Get("a").Close(), "a breaker of a group takes nothing out")
	found, ok := r.Get("breaker", "hosts")
	require.True(t, ok)
	require.Same(t, g, found)
	require.Equal(t, "hosts", g.Name())
	require.Equal(t, &r, g.Config().Registry)
	require.NoError(t, g.Close())
	require.NoError(t, g.Close())
	require.Empty(t, slices.Collect(r.All()))
}

func TestGroupValidatesBoth(t *testing.T) {
	t.Parallel()
	_, err := breaker.NewGroup(breaker.Config{Trials: -1}, -1)
	require.Equal(t, []string{"breaker.Config.Trials", "breaker.NewGroup.maxKeys"}, fields(err))
	require.ErrorIs(t, err, core.ErrConfig)
}

func TestGroupFromManyGoroutines(t *testing.T) {
	t.Parallel()
	g := newGroup(t, breaker.Config{Window: 3}, 16)
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			for i := range 2000 {
				b := g.Get(fmt.Sprint((i * (n + 1)) % 40))
				if p, err := b.Acquire(t.Context()); err == nil {
					p.Done(core.Outcome(1 + i%2))
				}
				if i%100 == 0 {
					g.Stats()
					b.Reset()
				}
			}
		})
	}
	all.Wait()
	require.LessOrEqual(t, g.Stats().Keys, 16)
	require.True(t, slices.IsSorted(keysInOrder(g)))
}

func keysInOrder(g *breaker.Group) (keys []string) {
	for key, b := range g.All() {
		if key != b.Key() {
			panic("not its key")
		}
		keys = append(keys, key)
		if len(keys) == 10 {
			break
		}
	}
	return keys
}

func TestGroupLooksAtFewBreakersToMakeRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const size = 1000
		g := newGroup(t, breaker.Config{Window: 1}, size)
		for i := range size {
			run(t, g.Get(fmt.Sprint(i)), "F")
		}
		g.Get("990").Reset()
		looks := 0
		for g.Get("new") == g.Overflow() {
			looks++
			require.Less(t, looks, size)
		}
		require.Equal(t, 990/16, looks, "each looks at the sixteen that follow")
		require.NotContains(t, keys(g), "990")
		require.EqualValues(t, looks, g.Stats().Overflowed)
	})
}

func TestGroupDropsOneOfThoseThatAreInUseWhereAllAre(t *testing.T) {
	t.Parallel()
	g := newGroup(t, breaker.Config{Window: 4}, 100)
	for i := range 100 {
		key := fmt.Sprint(i)
		run(t, g.Get(key), "S")
		if i != 7 {
			run(t, g.Get(key), "F")
		}
		g.Get(key)
	}
	require.NotSame(t, g.Overflow(), g.Get("new"))
	require.NotContains(t, keys(g), "7", "the one without a failure")
}

func TestAFailureThatIsOutOfTheTimeWindowDoesNotKeepABreaker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, breaker.Config{WindowTime: time.Second}, 2)
		run(t, g.Get("old"), "F")
		time.Sleep(time.Minute)
		run(t, g.Get("young"), "F")
		g.Get("new")
		require.ElementsMatch(t, []string{"young", "new"}, keys(g))
	})
}

func TestAGroupKeepsOnlyWhatWasSetByHand(t *testing.T) {
	t.Parallel()
	for _, initial := range []breaker.State{breaker.MetricsOnly, breaker.Disabled, breaker.ForcedOpen} {
		g := newGroup(t, breaker.Config{Initial: initial}, 4)
		for _, state := range []breaker.State{breaker.MetricsOnly, breaker.Disabled, breaker.ForcedOpen} {
			require.NoError(t, g.Get(state.String()).SetState(state))
		}
		for i := range 20 {
			require.Equal(t, initial, g.Get(strconv.Itoa(i)).State())
		}
		s := g.Stats()
		require.EqualValues(t, 19, s.Evicted, "those that no hand has set, and the one set to what a new one is: %v", initial)
		require.Zero(t, s.Overflowed)
		require.NotContains(t, keys(g), initial.String())
		for key, b := range g.All() {
			if b.State() != initial {
				require.Equal(t, key, b.State().String())
				b.Reset()
			}
		}
		for i := range 20 {
			g.Get(strconv.Itoa(100 + i))
		}
		require.NotSubset(t, keys(g), []string{"metrics_only", "disabled", "forced_open"}, "reset")
		require.EqualValues(t, 39, g.Stats().Evicted)
	}
}

func TestAGroupKeepsWhatWasSetByHandToWhatWasInitial(t *testing.T) {
	t.Parallel()
	g := newGroup(t, breaker.Config{Initial: breaker.Disabled}, 2)
	g.Get("made so")
	require.NoError(t, g.Get("set so").SetState(breaker.Disabled))
	require.NoError(t, g.SetConfig(breaker.Config{}))
	for i := range 10 {
		require.Equal(t, breaker.Closed, g.Get(strconv.Itoa(i)).State())
	}
	require.ElementsMatch(t, []string{"set so", "9"}, keys(g))
}

func TestAGroupTellsTheStateOfItsOverflow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, breaker.Config{Window: 1}, 1)
		require.NoError(t, g.Get("a").OpenFor(time.Hour))
		run(t, g.Get("b"), "F")
		s := g.Stats()
		require.Equal(t, []any{1, 1, breaker.Open}, []any{s.Keys, s.States[breaker.Open], s.OverflowState})
		time.Sleep(breaker.DefaultOpenTime)
		require.Equal(t, breaker.HalfOpen, g.Stats().OverflowState, "its time is over")
	})
}
