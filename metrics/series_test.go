package metrics_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/core/bulkhead"
	"github.com/gresil/gresil/core/cooldown"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/core/retry"
	"github.com/gresil/gresil/core/timeout"
	"github.com/gresil/gresil/internal/limits"
)

// downStore is a store that always fails, with a local table that always decides.
type downStore struct{ ratelimit.Store }

func (s downStore) Open(name string) (limits.Table, error) {
	t, err := s.Store.Open(name)
	return downTable{t}, err
}

type downTable struct{ limits.Table }

func (t downTable) Local() limits.Table { return t.Table }

func (downTable) Apply(context.Context, string, limits.ID, limits.Op) (ratelimit.Result, error) {
	return ratelimit.Result{}, errDown
}

// Store errors and local decisions are counted apart. However they interleave, the
// difference is neither negative nor decreasing.
func TestStoreErrorsAreExactWhileCallsRun(t *testing.T) {
	t.Parallel()
	registry := &core.Registry{}
	store := downStore{core.Must(ratelimit.NewMemory(0))}
	l := core.Must(ratelimit.New(ratelimit.Config{Name: "api", Registry: registry, Store: store, OnStoreError: ratelimit.Local}))
	g := newGatherer(t, registry)
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					_, _ = l.Take(t.Context(), "k", 1)
				}
			}
		})
	}
	for range 20 {
		requireSample(t, 0, samples(t, g, "ratelimit"), "ratelimit_requests_total api error")
	}
	close(done)
	wg.Wait()
}

// All series exist before the first event: what happens later changes values only.
func TestNoEventAddsASeries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := &core.Registry{}
		g := newGatherer(t, registry)
		p := core.Must(retry.New(retry.Config{Registry: registry}))
		b := core.Must(breaker.New(breaker.Config{Registry: registry, MinCalls: 100}))
		l := core.Must(ratelimit.New(ratelimit.Config{Registry: registry, Limit: ratelimit.TokenBucket(1, time.Second, 1)}))
		limit := core.Must(timeout.New(timeout.Config{Registry: registry, Limit: time.Second}))
		c := core.Must(cooldown.New(cooldown.Config{Registry: registry}))
		h := core.Must(bulkhead.New(bulkhead.Config{Registry: registry, Limit: 2, Backoff: 0.5, MaxWait: time.Second}))
		before := samples(t, g, "")
		call, err := h.Acquire(t.Context(), "k", 2)
		require.NoError(t, err)
		_, _ = h.Acquire(t.Context(), "k", 1)
		time.AfterFunc(time.Millisecond, func() { call.Done(core.Failure) })
		waited, err := h.Acquire(t.Context(), "k", 1)
		require.NoError(t, err)
		waited.Done(core.Success)
		_, _ = retry.Do(t.Context(), p, fail)
		_, _ = breaker.Do(t.Context(), b, fail)
		require.NoError(t, b.OpenFor(time.Second))
		_, _ = breaker.Do(t.Context(), b, succeed)
		require.NoError(t, b.SetState(breaker.MetricsOnly))
		for range 2 {
			_, _ = l.Wait(t.Context(), "k", 1)
			_, _ = l.Take(t.Context(), "k", 1)
		}
		_, _ = timeout.Do(t.Context(), limit, func(ctx context.Context) (int, error) { <-ctx.Done(); return 0, ctx.Err() })
		c.Hold(t.Context(), "k", time.Second)
		permit, err := c.Acquire(t.Context(), "k")
		require.NoError(t, err)
		permit.Done(core.Success)
		after := samples(t, g, "")
		for name := range after {
			require.Contains(t, before, name)
		}
		require.Len(t, after, len(before))
	})
}

// The results of calls_total are exclusive: their sum is the number of calls. A probe
// that outlives ProbeTimeout has waited or not, and counts apart.
func TestAnOverdueProbeIsCountedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := &core.Registry{}
		g := newGatherer(t, registry)
		c := core.Must(cooldown.New(cooldown.Config{Name: "vendor", Registry: registry, ProbeTimeout: time.Second}))
		requireSample(t, 0, samples(t, g, "cooldown_"), "cooldown_overdue_probes_total vendor")
		c.Hold(t.Context(), "k", time.Second)
		first, err := c.Acquire(t.Context(), "k") // waits, and becomes overdue
		require.NoError(t, err)
		second, err := c.Acquire(t.Context(), "k") // waits for its slot
		require.NoError(t, err)
		first.Done(core.Success)
		second.Done(core.Success)
		got, calls := samples(t, g, "cooldown_"), 0.0
		requireSample(t, 2, got, "cooldown_calls_total vendor waited")
		requireSample(t, 1, got, "cooldown_overdue_probes_total vendor")
		for name, value := range got {
			if strings.HasPrefix(name, "cooldown_calls_total ") {
				calls += value
			}
		}
		require.InDelta(t, 2, calls, 0)
	})
}
