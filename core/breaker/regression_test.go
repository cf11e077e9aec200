package breaker_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/internal/instance"
	"github.com/gresil/gresil/internal/registry"
)

// One that opens while a group looks for one to drop is kept, or was dropped before.
func TestOneThatOpensWhileAVictimIsLookedForIsKept(t *testing.T) {
	t.Parallel()
	for i := range 300 {
		g := core.Must(breaker.NewGroup(breaker.Config{Window: 2, OpenDelay: backoff.Constant{Delay: time.Hour}}, 16))
		var all []*breaker.Breaker
		for key := range 16 {
			all = append(all, g.Get(fmt.Sprint(key)))
			run(t, all[key], "F")
		}
		start := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			<-start
			for _, b := range all {
				run(t, b, "F")
			}
		})
		wg.Go(func() {
			<-start
			for key := range 4 {
				g.Get(fmt.Sprint("new", key))
			}
		})
		close(start)
		wg.Wait()
		s := g.Stats()
		require.EqualValues(t, s.Opened, s.States[breaker.Open], "%d: %+v", i, s)
	}
}

func TestHalfOpenByHandTellsWhenToComeBack(t *testing.T) {
	t.Parallel()
	for _, limit := range []time.Duration{10 * time.Second, -1} {
		synctest.Test(t, func(t *testing.T) {
			b := newBreaker(t, breaker.Config{Trials: 1, TrialTimeout: limit})
			require.NoError(t, b.SetState(breaker.ForcedOpen))
			require.NoError(t, b.SetState(breaker.HalfOpen))
			_, err := b.Acquire(t.Context())
			require.NoError(t, err)
			_, err = b.Acquire(t.Context())
			wait, ok := core.RetryAfter(err)
			require.True(t, ok)
			require.Equal(t, map[bool]time.Duration{true: limit, false: breaker.DefaultOpenTime}[limit > 0], wait)
			require.Equal(t, wait, b.Snapshot().RetryAfter())
		})
	}
}

func TestTrialsThatDecideAloneAreTold(t *testing.T) {
	t.Parallel()
	var told []registry.Event
	b := newBreaker(t, breaker.Config{
		Trials: 2, JudgeWithHistory: true, Initial: breaker.HalfOpen,
		Registry: listened(changedText, func(e registry.Event) { told = append(told, e) }),
	})
	run(t, b, "F") // half of two: it is certain
	require.Len(t, told, 1)
	require.InDelta(t, 1.0, told[0].Attr("failure_rate").Float64(), 0)
}

// A call may be timed for a listener that is gone when it ends.
func TestACallThatNoListenerTimesAnyMoreIsNotSlow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &core.Registry{}
		b := newBreaker(t, breaker.Config{Window: 2, Registry: r})
		for range 2 {
			cancel := instance.Inner(r).Events(true, func(context.Context, registry.Event) {})
			p, err := b.Acquire(t.Context())
			require.NoError(t, err)
			time.Sleep(time.Minute)
			cancel()
			p.Done(core.Success)
		}
		require.Equal(t, breaker.Closed, b.State())
		require.Zero(t, b.Snapshot().Slow)
		require.EqualValues(t, 2, b.Stats().Successes)
	})
}
