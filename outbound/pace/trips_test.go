package pace_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/redistest"
	"github.com/gresil/gresil/outbound/pace"
	"github.com/gresil/gresil/stores/redisstore"
)

// TestAPermitTakesOneRoundTripAtMost: exactly one in Strict, and fewer where the store sends the
// requests of several calls together.
func TestAPermitTakesOneRoundTripAtMost(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	client := redis.NewClient(&redis.Options{Addr: srv.Addr})
	t.Cleanup(func() { _ = client.Close() })
	for _, mode := range []redisstore.Mode{redisstore.Strict, redisstore.Coalesced} {
		store := core.Must(redisstore.New(client, redisstore.Config{Mode: mode, Timeout: time.Minute}))
		p := newPacer(t, pace.Config{Name: string(mode), Rates: []pace.Rate{{Calls: 1 << 20, Per: time.Hour, Burst: 1 << 19}}, Slack: 10 * time.Minute, Store: store})
		const callers, each = 64, 20
		var wg sync.WaitGroup
		for range callers {
			wg.Go(func() {
				for range each {
					if _, err := p.Wait(context.Background(), "vendor", 1); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		stats := store.Stats()
		require.EqualValues(t, callers*each, stats.Sent, "%v: one operation a permit", mode)
		if mode == redisstore.Strict {
			require.Equal(t, stats.Sent, stats.RoundTrips)
		} else {
			require.Less(t, stats.RoundTrips, stats.Sent*3/4, "requests of several calls are sent together")
		}
		require.NoError(t, store.Close())
	}
}
