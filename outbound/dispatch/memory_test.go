package dispatch

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
)

func TestManyKeysAndAccountsLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := core.Must(New(Config[int, int]{
			Capacity: 3, Attempts: 1, Account: strconv.Itoa,
			Classify: func(error) (Limited, bool) { return Limited{time.Millisecond, ScopeAccount}, true },
		}))
		for key := range 1000 {
			_, err := Do(t.Context(), d, key, func(context.Context, int) (int, error) { return 0, context.DeadlineExceeded })
			require.ErrorIs(t, err, ErrRateLimited)
			time.Sleep(time.Second)
		}
		require.LessOrEqual(t, len(d.pool.stacks), 7)
		require.LessOrEqual(t, len(d.held), 3)
	})
}

// TestCompletedCallsAreNotKept, in whichever order they complete.
func TestCompletedCallsAreNotKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := core.Must(New(Config[int, int]{}))
		for _, order := range [][]time.Duration{{1, 2, 3}, {3, 2, 1}, {2, 1, 3}, {2, 3, 1}, {1, 3, 2}, {3, 1, 2}} {
			for _, ends := range order {
				go func() {
					_, _ = Do(t.Context(), d, 0, func(context.Context, int) (int, error) { time.Sleep(ends); return 0, nil })
				}()
				synctest.Wait()
			}
			for left := 2; left >= 0; left-- {
				time.Sleep(time.Nanosecond)
				synctest.Wait()
				listed := 0
				d.mu.Lock()
				for c := d.calls; c != nil; c = c.next {
					listed++
				}
				d.mu.Unlock()
				require.Equal(t, left, listed, order)
			}
		}
	})
}
