package share

import (
	"context"
	"errors"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/ratelimit"
)

// A lateContext has reached its deadline, and its timer ends it a little later.
type lateContext struct {
	context.Context

	deadline time.Time
}

func (c lateContext) Deadline() (time.Time, bool) { return c.deadline, true }

func reached(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(ctx)
	time.AfterFunc(time.Millisecond, func() { cancel(errLate) })
	return lateContext{ctx, time.Now()}
}

var errLate = errors.New("the caller has no time")

// TestADeadlineThatAConnectionReachesFirstIsNoFailureOfTheStore: the next operation is sent to it.
func TestADeadlineThatAConnectionReachesFirstIsNoFailureOfTheStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, asked := &scripted{Store: inMemory()}, 0
		l := newLimiter(t, newStore(t, store, Config{}), ratelimit.PerHour(100))
		store.fail(func(string) error { asked++; return os.ErrDeadlineExceeded }, nil)
		for range failures {
			_, err := l.Take(reached(t.Context()), "k", 1)
			require.ErrorIs(t, err, errLate)
		}
		take(t, l, "k", 1)
		require.Equal(t, failures+1, asked)
	})
}
