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
