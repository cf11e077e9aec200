package metrics_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/bulkhead"
)

func TestBulkheadSeries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := &core.Registry{}
		g := newGatherer(t, registry)
		b := core.Must(bulkhead.New(bulkhead.Config{Name: "vendor", Registry: registry, Limit: 4, Backoff: 0.5, MaxWait: time.Second}))
		got := samples(t, g, "bulkhead_")
		requireSample(t, 4, got, "bulkhead_limit vendor")
		requireSample(t, 0, got, "bulkhead_calls_total vendor admitted")
		p, err := b.AcquireN(t.Context(), "k", 4)
		require.NoError(t, err)
		_, err = b.Acquire(t.Context(), "k")
		require.ErrorIs(t, err, bulkhead.ErrFull)
		time.AfterFunc(time.Millisecond, func() { p.Done(core.Failure) })
		_, err = b.Acquire(t.Context(), "k")
		require.NoError(t, err)
		synctest.Wait()
		got = samples(t, g, "bulkhead_")
		for name, want := range map[string]float64{
			"bulkhead_calls_total vendor admitted": 2, "bulkhead_calls_total vendor rejected": 1, "bulkhead_calls_total vendor canceled": 0,
			"bulkhead_limit vendor": 2, "bulkhead_in_flight vendor": 1, "bulkhead_waiting vendor": 0, "bulkhead_keys vendor": 1,
			"bulkhead_wait_seconds vendor count": 1,
		} {
			requireSample(t, want, got, name)
		}
		require.NoError(t, b.Close())
		require.Empty(t, samples(t, g, "bulkhead_"))
	})
}

// A slotStore is a store of a bulkhead that fails at first.
type slotStore struct{ lost func(error) }

func (s *slotStore) OpenBulkhead(string) (bulkhead.Table, error) { return s, nil }

func (s *slotStore) Acquire(_ context.Context, r bulkhead.Request) (func(), error) {
	if s.lost == nil {
		s.lost = r.Lost
		return nil, errors.New("no server")
	}
	s.lost = r.Lost
	return func() {}, nil
}

func TestFailuresOfTheStoreOfABulkheadAreCounted(t *testing.T) {
	t.Parallel()
	registry, slots := &core.Registry{}, &slotStore{}
	g := newGatherer(t, registry)
	b := core.Must(bulkhead.New(bulkhead.Config{Name: "vendor", Registry: registry, Store: slots}))
	_, err := b.Acquire(t.Context(), "k")
	require.ErrorIs(t, err, bulkhead.ErrStore)
	_, err = b.Acquire(t.Context(), "k")
	require.NoError(t, err)
	slots.lost(nil)
	got := samples(t, g, "bulkhead_")
	requireSample(t, 1, got, "bulkhead_store_errors_total vendor")
	requireSample(t, 1, got, "bulkhead_lost_total vendor")
}
