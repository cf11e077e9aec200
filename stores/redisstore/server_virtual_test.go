package redisstore

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/ratelimit"
)

// TestRealExpiryDoesNotMatterInVirtualTime: a key that the server would have expired by its own clock is
// there as long as the clock of the store stands still.
func TestRealExpiryDoesNotMatterInVirtualTime(t *testing.T) {
	t.Parallel()
	srv := startServer(t)
	for name, limit := range kinds(10, 10*time.Millisecond) {
		for _, mode := range []Mode{Strict, Coalesced} {
			s := newStore(t, srv.virtual(t), Config{Mode: mode})
			now := time.Now()
			s.clock = func() time.Time { return now }
			table := open(t, s, string(mode))
			for _, limit := range []ratelimit.Limit{limit, limit.And(ratelimit.SlidingLog(100, 10*time.Millisecond))} {
				key := name + limit.String()
				require.True(t, take(t, table, key, limit, 10).Allowed, key)
				ttl := srv.client(t).PTTL(t.Context(), keyName(keyPrefix(defaultPrefix, string(mode)), key, false)).Val()
				require.Greater(t, ttl, keptLonger-time.Minute, key)
				require.False(t, take(t, table, key, limit, 10).Allowed, key)
			}
		}
	}
}
