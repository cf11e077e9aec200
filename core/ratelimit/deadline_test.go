package ratelimit_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/blame/blametest"
	"github.com/gresil/gresil/internal/limits"
)

// A connectionStore reads from a connection that has the deadline of the call.
type connectionStore struct{}

func (s connectionStore) Open(string) (limits.Table, error)      { return s, nil }
func (connectionStore) Close() error                             { return nil }
func (connectionStore) Plan([]limits.Spec) (*limits.Plan, error) { return new(limits.Plan), nil }
func (connectionStore) Apply(context.Context, string, *limits.Plan, limits.Op) (limits.Result, error) {
	return limits.Result{}, fmt.Errorf("store: %w", os.ErrDeadlineExceeded)
}

// TestADeadlineThatAConnectionReachesFirstIsNoFailureOfTheStore: OnStoreError does not allow the call.
func TestADeadlineThatAConnectionReachesFirstIsNoFailureOfTheStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, err := ratelimit.New(ratelimit.Config{Name: "l", Store: connectionStore{}, Limit: ratelimit.PerHour(1)})
		require.NoError(t, err)
		r, err := l.Take(blametest.Late(t.Context()), "k", 1)
		require.ErrorIs(t, err, blametest.ErrLate)
		require.False(t, r.Allowed)
		require.Zero(t, l.Stats().StoreErrors)
		r, err = l.Take(t.Context(), "k", 1)
		require.NoError(t, err)
		require.True(t, r.Allowed)
		require.EqualValues(t, 1, l.Stats().StoreErrors, "a timeout of the store's own")
	})
}
