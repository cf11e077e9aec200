package keyvalue_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/core/ratelimit/driver"
	"github.com/gresil/gresil/core/ratelimit/driver/keyvalue"
)

// A fastDisk has a clock that can gain a time: the timers of waiters are then late.
type fastDisk struct {
	disk

	gained atomic.Int64 // a duration
}

func (d *fastDisk) Open(string) (driver.Table, error) { return keyvalue.QueueTable(d), nil }

func (d *fastDisk) Update(ctx context.Context, key string, f func(time.Time, []byte) ([]byte, time.Duration)) error {
	return d.disk.Update(ctx, key, func(now time.Time, value []byte) ([]byte, time.Duration) {
		return f(now.Add(time.Duration(d.gained.Load())), value)
	})
}

func newFastDisk(t *testing.T, burst int64) (*fastDisk, *ratelimit.Limiter) {
	t.Helper()
	d := &fastDisk{disk: disk{mapValues: mapValues{byKey: map[string][]byte{}}}}
	l, err := ratelimit.New(ratelimit.Config{Name: "disk", Store: d, Limit: ratelimit.TokenBucket(1, time.Second, burst), MaxWait: -1})
	require.NoError(t, err)
	for range burst {
		requireFree(t, l)
	}
	return d, l
}

func TestAWaiterThatIsServedLateTakesNoTimeFromTheNext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, l := newFastDisk(t, 1)
		_, _ = wait(t.Context(), l)
		r, err := wait(t.Context(), l)
		d.gained.Store(int64(300 * time.Millisecond))
		time.Sleep(1700 * time.Millisecond)
		synctest.Wait()
		require.NoError(t, *err)
		require.True(t, r.Allowed)
	})
}

func TestAWaiterThatIsDueAtAChangeIsServedUnderTheLimitBefore(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(l *ratelimit.Limiter, limit ratelimit.Limit) error{
		"all keys": func(l *ratelimit.Limiter, limit ratelimit.Limit) error { return l.SetLimit(limit) },
		"one key":  func(l *ratelimit.Limiter, limit ratelimit.Limit) error { return l.SetKeyLimit("k", limit) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d, l := newFastDisk(t, 5)
				r, err := wait(t.Context(), l)
				time.Sleep(900 * time.Millisecond)
				d.gained.Store(int64(300 * time.Millisecond))
				require.NoError(t, set(l, ratelimit.PerHour(1)))
				synctest.Wait()
				require.NoError(t, *err)
				require.True(t, r.Allowed)
			})
		})
	}
}
