package share

import (
	"os"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/blame/blametest"
)

// TestADeadlineThatAConnectionReachesFirstIsNoFailureOfTheStore: the next operation is sent to it.
func TestADeadlineThatAConnectionReachesFirstIsNoFailureOfTheStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, asked := &scripted{Store: inMemory()}, 0
		l := newLimiter(t, newStore(t, store, Config{}), ratelimit.PerHour(100))
		store.fail(func(string) error { asked++; return os.ErrDeadlineExceeded }, nil)
		for range failures {
			_, err := l.Take(blametest.Late(t.Context()), "k", 1)
			require.ErrorIs(t, err, blametest.ErrLate)
		}
		take(t, l, "k", 1)
		require.Equal(t, failures+1, asked)
	})
}
