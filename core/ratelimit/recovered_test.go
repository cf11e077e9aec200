package ratelimit_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/eventtest"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/registry"
)

var errUnavailable = errors.New("unavailable")

// A switchedStore fails while down is set, and calls during, if not nil, before it
// returns.
type switchedStore struct {
	ratelimit.Store
	down   atomic.Bool
	during func()
}

func (s *switchedStore) Open(name string) (limits.Table, error) {
	t, err := s.Store.Open(name)
	return switchedTable{t, s}, err
}

type switchedTable struct {
	limits.Table
	store *switchedStore
}

func (t switchedTable) Apply(ctx context.Context, key string, plan *limits.Plan, op limits.Op) (ratelimit.Result, error) {
	if t.store.down.Load() {
		return ratelimit.Result{}, errUnavailable
	}
	r, err := t.Table.Apply(ctx, key, plan, op)
	if f := t.store.during; f != nil {
		t.store.during = nil
		f()
	}
	return r, err
}

func TestARecoveredStoreIsAnnouncedOncePerOutage(t *testing.T) {
	t.Parallel()
	store := &switchedStore{Store: core.Must(ratelimit.NewMemory(0))}
	var recovered []string
	l := core.Must(ratelimit.New(ratelimit.Config{Name: "api", Store: store, Limit: ratelimit.PerMinute(3), Registry: eventtest.Registry(func(_ context.Context, e registry.Event) {
		if e.Outage && !e.Warn {
			recovered = append(recovered, e.Key)
		}
	})}))
	take := func(cost int64) {
		t.Helper()
		_, err := l.Take(t.Context(), "k", cost)
		require.NoError(t, err)
	}
	take(1)
	require.Empty(t, recovered, "there was no failure")
	for range 2 {
		store.down.Store(true)
		take(1)
		take(1)
		store.down.Store(false)
		recovered = nil
		take(9)
		require.Empty(t, recovered, "a refusal can come from a cache")
		take(1)
		take(0)
		require.Equal(t, []string{"k"}, recovered)
	}
	require.EqualValues(t, 4, l.Stats().StoreErrors)
}

// An operation that began before a failure says nothing of the time after it.
func TestALateSuccessIsNoRecovery(t *testing.T) {
	t.Parallel()
	store := &switchedStore{Store: core.Must(ratelimit.NewMemory(0))}
	recovered := 0
	l := core.Must(ratelimit.New(ratelimit.Config{Name: "l", Store: store, Registry: eventtest.Registry(func(_ context.Context, e registry.Event) {
		if e.Outage && !e.Warn {
			recovered++
		}
	})}))
	fail := func() {
		store.down.Store(true)
		_, _ = l.Take(t.Context(), "k", 1)
		store.down.Store(false)
	}
	fail()
	store.during = fail
	_, _ = l.Take(t.Context(), "k", 1)
	require.Zero(t, recovered)
	_, _ = l.Take(t.Context(), "k", 1)
	require.Equal(t, 1, recovered)
}
