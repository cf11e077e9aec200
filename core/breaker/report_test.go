package breaker_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/internal/eventtest"
	"github.com/gresil/gresil/internal/registry"
)

func TestEvents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		var got []string
		r := eventtest.Registry(func(ctx context.Context, e registry.Event) {
			line := e.Text[len("circuit breaker "):]
			for _, a := range []string{"from", "to", "reason", "state", "outcome", "duration", "slow", "open_for"} {
				if v := e.Attr(a); v.Any() != nil {
					line += " " + v.String()
				}
			}
			if ctx.Value(key{}) == nil {
				line += " without a context"
			}
			got = append(got, line)
		})
		b := newBreaker(t, breaker.Config{Failures: 2, SlowCall: time.Second, OpenDelay: minute(), Registry: r})
		ctx := context.WithValue(t.Context(), key{}, 1)
		late, err := b.Acquire(ctx)
		require.NoError(t, err)
		for _, err := range []error{nil, errDown, core.ErrRejected, errDown, nil} {
			_, _ = breaker.Do(ctx, b, func(context.Context) (int, error) { time.Sleep(2 * time.Second); return 0, err })
		}
		time.Sleep(time.Minute)
		b.State()
		late.Done(core.Success)
		require.Equal(t, []string{
			"recorded a call closed success 2s true",
			"recorded a call closed failure 2s true",
			"recorded a call closed ignored 2s true",
			"recorded a call closed failure 2s true",
			"changed its state closed open 2 failures in a row 1m0s",
			"rejected a call open",
			"changed its state open half_open open for 1m0s 0s without a context",
			"recorded a call closed ignored 1m8s true", // it is late
		}, got)
	})
}

// Changes are told in order, though calls end at once, and observers use the breaker.
func TestChangesInOrder(t *testing.T) {
	t.Parallel()
	state, told := breaker.Closed, 0
	var b *breaker.Breaker
	cfg := breaker.Config{Failures: 2, Trials: 2, OpenDelay: backoff.Constant{}, OnStateChange: func(_ context.Context, c breaker.StateChange) {
		if c.From != state { // told one at a time
			t.Errorf("%v after %v", c, state)
		}
		state = c.To
		told++
		_ = b.Stats()
	}}
	b = newBreaker(t, cfg)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 2000 {
				if p, err := b.Acquire(t.Context()); err == nil {
					p.Done(core.Outcome(rand.IntN(3)))
				}
			}
		})
	}
	all.Wait()
	require.Equal(t, b.State(), state)
	require.Greater(t, told, 10)
	s := b.Stats()
	require.EqualValues(t, 16000, s.Successes+s.Failures+s.Ignored+s.Rejected)
}

func TestObserverEndsGoroutine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		told := 0
		b := newBreaker(t, breaker.Config{Trials: 1, OpenDelay: minute(), OnStateChange: func(_ context.Context, c breaker.StateChange) {
			if told++; c.To == breaker.HalfOpen {
				panic("mine")
			}
		}})
		run(t, b, "FFFFF-")
		require.PanicsWithValue(t, "mine", func() { _, _ = b.Acquire(t.Context()) })
		run(t, b, "S") // the trial of the call that was not made
		require.Equal(t, breaker.Closed, b.State())
		require.Equal(t, 3, told)
	})
}

// What changes while a Group is in use adds no figure: 0 is exported too.
func TestFigures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &registry.Registry{}
		cfg := breaker.Config{Registry: (*core.Registry)(r), SlowCall: time.Second, MinCalls: 4, Failures: -1, MaxKeys: 2, OpenDelay: minute()}
		g, b := newGroup(t, cfg), newBreaker(t, breaker.Config{Name: "b", Registry: (*core.Registry)(r), FailureRate: -1, WindowTime: time.Minute})
		figures := func(of string, keys bool) map[string]float64 {
			e, _ := r.Get("breaker", of)
			all, got := e.Source.Figures(), map[string]float64{}
			if keys {
				all = e.Source.Keys("host")
			}
			for _, f := range all {
				if f.Dist != nil {
					f.N = float64(f.Dist.Count)
				}
				key := strings.Join(append([]string{f.Name}, f.Labels...), " ")
				require.NotContains(t, got, key)
				if got[key] = f.N; f.N == 0 {
					delete(got, key)
				}
			}
			return got
		}
		require.Equal(t, map[string]float64{"state state closed": 1}, figures("b", false))
		require.Empty(t, figures("default", false))
		e, _ := r.Get("breaker", "default")
		e.Source.Time()
		run(t, b, "Sff")
		run(t, g.For("a"), "sSFIf RR")
		run(t, g.For("c"), "SF")
		g.For("evicts c")
		require.NoError(t, g.For("evicts c").SetState(breaker.ForcedOpen))
		g.For("overflows")
		until := float64(time.Now().Add(time.Minute).UnixMilli()) / 1000
		require.Equal(t, map[string]float64{
			"calls_total result success": 3, "calls_total result failure": 3, "calls_total result ignored": 1, "calls_total result not_permitted": 2,
			"slow_calls_total": 2, "opened_total": 1, "state state open": 1, "state state forced_open": 1, "state state closed": 1,
			"keys": 2, "key_evictions_total": 1, "key_overflows_total": 1,
			"call_duration_seconds result success": 3, "call_duration_seconds result failure": 3, "call_duration_seconds result ignored": 1,
		}, figures("default", false))
		host := func(name string) float64 {
			return figures("default", true)[strings.TrimSpace(strings.Replace(name, " ", " host a ", 1))]
		}
		for name, want := range map[string]float64{
			"state state open": 1, "calls_total result success": 2, "opened_total ": 1, "open_until_timestamp_seconds ": until,
			"window_calls result success": 2, "window_calls result failure": 2, "window_slow_calls ": 2,
			"failure_ratio ": 0.5, "failure_ratio_threshold ": 0.5, "slow_call_ratio ": 0.5, "slow_call_ratio_threshold ": 1,
		} {
			require.InDelta(t, want, host(name), 0, name)
		}
		require.InDelta(t, 1, figures("default", true)["state state closed"], 0, "the breaker that overflows")
		require.Equal(t, map[string]float64{
			"state state closed": 1, "calls_total result success": 1, "calls_total result failure": 2, "window_calls result success": 1, "window_calls result failure": 2,
		}, figures("b", false), "without a threshold and durations")
	})
}

func TestHosts(t *testing.T) {
	t.Parallel()
	for want, plugins := range map[bool][][]bool{true: {{true}, {true, true}}, false: {{}, {false}, {true, false}, {false, true}}} {
		for _, hosts := range plugins {
			r := &registry.Registry{}
			g := newGroup(t, breaker.Config{Registry: (*core.Registry)(r), Initial: breaker.ForcedOpen})
			e, _ := r.Get("breaker", "default")
			for _, h := range hosts {
				registry.BindKeys(g, h)
			}
			require.Equal(t, want, e.Source.Hosts(), hosts)
			text := map[bool]string{true: "breaker: default: forced open", false: "breaker: default: a: forced open"}[slices.Contains(hosts, false)]
			refused := rejection(t, g.For("a"))
			require.EqualError(t, refused, text)
			require.Equal(t, "a", refused.Key)
		}
	}
}
