package bulkhead_test

import (
	"os"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/bulkhead"
	"github.com/gresil/gresil/internal/blame/blametest"
)

// TestADeadlineThatAConnectionReachesFirstIsNoFailureOfTheStore: OnStoreError does not admit the call.
func TestADeadlineThatAConnectionReachesFirstIsNoFailureOfTheStore(t *testing.T) {
	t.Parallel()
	for _, policy := range []bulkhead.FailurePolicy{bulkhead.Deny, bulkhead.Local} {
		synctest.Test(t, func(t *testing.T) {
			s := newSharedStore()
			s.fail(os.ErrDeadlineExceeded)
			b := shared(s, func(c *bulkhead.Config) { c.OnStoreError = policy })
			_, err := b.Acquire(blametest.Late(t.Context()), "k")
			require.ErrorIs(t, err, blametest.ErrLate)
			require.NotErrorIs(t, err, bulkhead.ErrStore)
			require.Zero(t, b.Stats().StoreErrors)
		})
	}
}
