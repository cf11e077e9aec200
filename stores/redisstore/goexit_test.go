package redisstore

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/cooldown"
	"github.com/gresil/gresil/internal/eventtest"
	"github.com/gresil/gresil/internal/registry"
)

// TestListenerThatEndsTheGoroutineAtAHold: they are in one reading, and known after it.
func TestListenerThatEndsTheGoroutineAtAHold(t *testing.T) {
	t.Parallel()
	leavesNothing(t)
	srv := startServer(t)
	before := newShared(t, srv.client(t), Config{})
	probe := newShared(t, srv.client(t), Config{})
	use(t, probe, "x")
	keys := []string{"a", "b", "c", "d"}
	for _, key := range keys {
		before.Hold(t.Context(), key, time.Hour)
		require.Eventually(t, isHeld(probe, key), patient, time.Millisecond)
	}
	var held atomic.Int64
	c := newShared(t, srv.client(t), Config{}, func(c *cooldown.Config) {
		c.Registry = eventtest.Registry(func(_ context.Context, e registry.Event) {
			if e.Text == "calls are held back" {
				held.Add(1)
				runtime.Goexit()
			}
		})
	})
	use(t, c, "x")
	for _, key := range keys {
		require.Eventually(t, isHeld(c, key), patient, time.Millisecond, key)
	}
	require.Eventually(t, func() bool { return held.Load() == int64(len(keys)) }, patient, time.Millisecond)
}

func TestAllCallsAreMadeHoweverManyEndTheGoroutine(t *testing.T) {
	t.Parallel()
	var made int
	calls := make([]func(), maxHolds)
	for i := range calls {
		calls[i] = func() {
			if made++; i%2 == 0 {
				runtime.Goexit()
			}
		}
	}
	var all sync.WaitGroup
	all.Go(func() { callAll(calls) })
	all.Wait()
	require.Equal(t, len(calls), made)
}
