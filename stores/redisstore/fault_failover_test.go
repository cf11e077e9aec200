package redisstore

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/redisserver"
)

// TestAFailoverUnderLoad kills the primary while callers go on: Sentinel makes the replica the
// primary, and what had not reached that, a capacity at most, is granted once more. It is the same
// with a share: what it lets through is charged to what the replica has.
func TestAFailoverUnderLoad(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, mode Mode) {
		t.Helper()
		leavesNothing(t)
		group, err := redisserver.StartFailover(t.TempDir())
		require.NoError(t, err)
		t.Cleanup(group.Kill)
		client := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: redisserver.PrimaryName, SentinelAddrs: []string{group.Sentinel.Addr}})
		t.Cleanup(func() { _ = client.Close() })

		const limit = 3000
		s := newStore(t, client, Config{Mode: mode, Timeout: 250 * time.Millisecond})
		l := startLoad(t, s, ratelimit.PerHour(limit), "k")
		l.share(s, ratelimit.PerHour(limit), "k")
		l.until(&l.granted[ratelimit.Deny], limit/3)
		before, failed := l.inTime(), l.failed.Load()
		group.Primary.Kill()
		killed := time.Now()
		l.until(&l.failed, 1)
		require.NoError(t, group.Promote())
		l.until(&l.decided, 1)
		back := time.Since(killed)
		during := l.inTime()
		failed = l.failed.Load() - failed
		l.until(&l.decided, 100)
		require.Eventually(t, func() bool { return l.left() == 0 }, 30*time.Second, 10*time.Millisecond)
		l.stop()
		t.Logf("%v\nbefore: %s\ndecides again after %v, %d passed or denied without: %s\nafter: %s\ngranted %d, %d and %d of %d", mode, before, back, failed, during, l.inTime(),
			l.granted[ratelimit.Deny].Load(), l.granted[ratelimit.Allow].Load(), l.granted[ratelimit.Local].Load(), limit)
		l.within(2 * limit)
		l.shareWithin(2 * limit)
	})
}
