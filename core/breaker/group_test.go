package breaker_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/breaker"
)

func newGroup(t *testing.T, cfg breaker.Config) *breaker.Group {
	t.Helper()
	g, err := breaker.NewGroup(cfg)
	require.NoError(t, err)
	return g
}

func TestKeysAreIndependent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var j journal
		g := newGroup(t, breaker.Config{Name: "hosts", OpenDelay: minute(), OnStateChange: j.changed})
		require.Zero(t, g.Stats().Keys)
		run(t, g.For("b"), "FFFFFR")
		run(t, g.For("a"), "SF")
		require.Same(t, g.For("a"), g.For("a"))
		require.EqualError(t, rejection(t, g.For("b")), "breaker: hosts: b: open for another 1m")
		var keys []string
		for key := range g.All() {
			keys = append(keys, key)
		}
		require.Equal(t, []string{"a", "b"}, keys)
		require.Equal(t, "state=open keys=2 failure_rate=0.8571 successes=1 failures=6 rejected=2 opened=1", g.Stats().String())
		require.NoError(t, g.SetConfig(breaker.Config{Failures: 2}))
		run(t, g.For("a"), "FR")
		run(t, g.For("b"), "R")
		run(t, g.For(""), "FFR")
	})
}

func TestGroupState(t *testing.T) {
	t.Parallel()
	for want, states := range map[breaker.State][]breaker.State{
		breaker.Closed:      nil,
		breaker.MetricsOnly: {breaker.Closed, breaker.MetricsOnly},
		breaker.ForcedOpen:  {breaker.Disabled, breaker.ForcedOpen, breaker.Closed},
		breaker.HalfOpen:    {breaker.HalfOpen, breaker.ForcedOpen},
		breaker.Open:        {breaker.Closed, breaker.Open, breaker.HalfOpen},
	} {
		g := newGroup(t, breaker.Config{})
		for i, s := range states {
			require.NoError(t, g.For(fmt.Sprint(i)).SetState(s))
		}
		require.Equal(t, want, g.Stats().State)
	}
}

func TestEviction(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cfg     breaker.Config
		calls   string        // of each of 4 keys
		after   time.Duration // without a call
		evicted bool
	}{
		"closed":                  {breaker.Config{}, "SF", 0, true},
		"disabled as all":         {breaker.Config{Initial: breaker.Disabled}, "F", 0, true},
		"metrics only as all":     {breaker.Config{Initial: breaker.MetricsOnly}, "F", 0, true},
		"disabled by hand":        {breaker.Config{}, "D", 100 * time.Hour, false},
		"open":                    {breaker.Config{}, "FFFFF", 0, false},
		"open as all":             {breaker.Config{Initial: breaker.Open}, "", 0, false},
		"open, and its time over": {breaker.Config{OpenDelay: minute()}, "FFFFF-", 0, false},
		"open, not forgotten yet": {breaker.Config{OpenDelay: minute()}, "FFFFF", time.Hour + time.Minute - 1, false},
		"open, and forgotten":     {breaker.Config{OpenDelay: minute()}, "FFFFF", time.Hour + time.Minute, true},
		"open, and looked at":     {breaker.Config{OpenDelay: minute()}, "FFFFF-", time.Hour, true},
		"half-open":               {breaker.Config{}, "HS", time.Hour - 1, false},
		"half-open, forgotten":    {breaker.Config{}, "HS", time.Hour, true},
		"forced open":             {breaker.Config{}, "X", 100 * time.Hour, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			c.cfg.MaxKeys = 4
			g := newGroup(t, c.cfg)
			for i := range 4 {
				run(t, g.For(fmt.Sprint(i)), c.calls)
			}
			before := g.Stats()
			time.Sleep(c.after)
			more, further := g.For("more"), g.For("further")
			require.Equal(t, c.evicted, more != further, name)
			require.Equal(t, !c.evicted, more == g.Overflow(), name)
			after := g.Stats()
			require.Equal(t, 4, after.Keys, name)
			require.Equal(t, before.Failures, after.Failures, "counts of evicted breakers stay: %s", name)
		})
	}
}

func TestEvictionSparesTheOpen(t *testing.T) {
	t.Parallel()
	g := newGroup(t, breaker.Config{MaxKeys: 10})
	open := g.For("open")
	run(t, open, "FFFFF")
	for i := range 1000 {
		run(t, g.For(fmt.Sprint(i)), "S")
	}
	require.Same(t, open, g.For("open"))
	require.Nil(t, g.Overflow())
	require.Equal(t, "state=open keys=10 successes=1000 failures=5 opened=1", strings.Replace(g.Stats().String(), " failure_rate=0.3571", "", 1))
}

// A shared breaker rejects too: the keys that find no room are not unprotected.
func TestOverflow(t *testing.T) {
	t.Parallel()
	g := newGroup(t, breaker.Config{MaxKeys: 1, Failures: 2})
	require.NoError(t, g.For("a").OpenFor(time.Hour))
	run(t, g.For("b"), "F")
	run(t, g.For("c"), "FR")
	require.NoError(t, g.For("a").SetState(breaker.Closed))
	run(t, g.For("d"), "S")
	require.NoError(t, g.SetConfig(breaker.Config{MaxKeys: 2, Window: 7, Failures: 1}))
	require.NotSame(t, g.For("e"), g.Overflow())
	require.NoError(t, g.Overflow().SetState(breaker.Closed))
	run(t, g.Overflow(), "FR")
	require.Equal(t, 2, g.Stats().Keys)
}

func TestGroupInParallel(t *testing.T) {
	t.Parallel()
	g := newGroup(t, breaker.Config{MaxKeys: 20, OpenDelay: minute()})
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for n := range 2000 {
				b := g.For(fmt.Sprint(rand.IntN(40)))
				if p, err := b.Acquire(t.Context()); err == nil {
					p.Done(core.Outcome(n % 3))
				}
				switch {
				case n%100 == 0 && i == 0:
					cfg := breaker.Config{Window: 1 + n%7, MinCalls: 1, MaxKeys: 20, OpenDelay: minute()}
					if n%200 == 0 {
						cfg.Window, cfg.WindowTime = 0, time.Millisecond
					}
					_ = g.SetConfig(cfg)
				case n%50 == 0:
					for range g.All() {
						_ = g.Stats()
					}
				}
			}
		})
	}
	all.Wait()
	s := g.Stats()
	counted := s.Successes + s.Failures + s.Ignored + s.Rejected
	require.LessOrEqual(t, counted, uint64(8000))
	require.Greater(t, counted, uint64(7000), "but for calls whose breaker was evicted meanwhile")
	require.LessOrEqual(t, s.Keys, 20)
}
