package bulkhead_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/bulkhead"
)

// A lateContext has reached its deadline, and its timer ends it a little later.
type lateContext struct {
	context.Context

	deadline time.Time
}

func (c lateContext) Deadline() (time.Time, bool) { return c.deadline, true }

func late(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(ctx)
	time.AfterFunc(time.Millisecond, func() { cancel(errLate) })
	return lateContext{ctx, time.Now()}
}

var errLate = errors.New("the caller has no time")

// TestADeadlineThatAConnectionReachesFirstIsNoFailureOfTheStore: OnStoreError does not admit the call.
func TestADeadlineThatAConnectionReachesFirstIsNoFailureOfTheStore(t *testing.T) {
	t.Parallel()
	for _, policy := range []bulkhead.FailurePolicy{bulkhead.Deny, bulkhead.Local} {
		synctest.Test(t, func(t *testing.T) {
			s := newSharedStore()
			s.fail(os.ErrDeadlineExceeded)
			b := shared(s, func(c *bulkhead.Config) { c.OnStoreError = policy })
			_, err := b.Acquire(late(t.Context()), "k")
			require.ErrorIs(t, err, errLate)
			require.NotErrorIs(t, err, bulkhead.ErrStore)
			require.Zero(t, b.Stats().StoreErrors)
		})
	}
}
