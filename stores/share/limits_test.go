package share

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/ratelimittest"
)

// TestALimitThatChangesOften: a key remembers the limit of the last take, and charges the takes under all under it.
func TestALimitThatChangesOften(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const takes = 20
		store := &ratelimittest.Failing{Store: inMemory()}
		l := newLimiter(t, newStore(t, store, Config{}), ratelimit.PerHour(100))
		change := func(i int64) {
			require.True(t, take(t, l, "k", 1).Allowed)
			known := localOf(storeOf(l)).shard("k").keys["k"]
			require.LessOrEqual(t, len(known.parts), 1)
			ratelimittest.SetLimit(t, l, ratelimit.PerHour(100+i))
		}
		for i := range int64(takes) {
			change(1 + i)
		}
		store.Down()
		for i := range int64(takes) {
			change(1 + takes + i)
		}
		store.Up()
		time.Sleep(2 * chargeEvery)
		require.Zero(t, storeOf(l).owing.Load())
		require.EqualValues(t, 100+2*takes-2*takes-1, take(t, l, "k", 1).Remaining)
	})
}
