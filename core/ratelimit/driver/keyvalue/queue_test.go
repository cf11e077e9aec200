package keyvalue_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/core/ratelimit/driver"
	"github.com/gresil/gresil/core/ratelimit/driver/keyvalue"
)

var errDisk = errors.New("the disk is full")

// A disk is a store with queues. Some of its next updates fail before they have called their function,
// or after.
type disk struct {
	mapValues

	before, after atomic.Int64
}

func (d *disk) Open(string) (driver.Table, error) { return keyvalue.QueueTable(d), nil }
func (d *disk) Close() error                      { return nil }

func (d *disk) Update(ctx context.Context, key string, f func(time.Time, []byte) ([]byte, time.Duration)) error {
	switch {
	case d.before.Add(-1) >= 0:
		return errDisk
	case d.after.Add(-1) >= 0:
		f(time.Now(), d.byKey[key])
		return errDisk
	}
	return d.mapValues.Update(ctx, key, f)
}

// newDisk returns a store with a limiter that has no permit of the key for a minute.
func newDisk(t *testing.T, policy ratelimit.FailurePolicy) (*disk, *ratelimit.Limiter) {
	t.Helper()
	d := &disk{mapValues: mapValues{byKey: map[string][]byte{}}}
	l, err := ratelimit.New(ratelimit.Config{Name: "disk", Store: d, Limit: ratelimit.PerMinute(1), MaxWait: time.Hour, OnStoreError: policy})
	require.NoError(t, err)
	r, err := l.Take(t.Context(), "k", 1)
	require.NoError(t, err)
	require.True(t, r.Allowed)
	return d, l
}

// wait starts a wait, and returns its outcome.
func wait(ctx context.Context, l *ratelimit.Limiter) (r *ratelimit.Result, err *error) {
	r, err = new(ratelimit.Result), new(error)
	go func() { *r, *err = l.Wait(ctx, "k", 1) }()
	synctest.Wait()
	return r, err
}

// requireFree fails unless the permit of the key is available.
func requireFree(t *testing.T, l *ratelimit.Limiter) {
	t.Helper()
	r, err := l.Take(t.Context(), "k", 1)
	require.NoError(t, err)
	require.True(t, r.Allowed, "a waiter that has returned is neither charged nor in the queue")
}

func TestAWaiterLeavesTheQueueOfAStoreThatFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, l := newDisk(t, ratelimit.Deny)
		_, err := wait(t.Context(), l)
		d.before.Store(1)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.ErrorIs(t, *err, ratelimit.ErrStore)
		require.ErrorIs(t, *err, errDisk)
		requireFree(t, l)
	})
}

func TestAWaiterThatIsCanceledLeavesTheQueueOfAStoreThatFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, l := newDisk(t, ratelimit.Deny)
		ctx, cancel := context.WithCancel(t.Context())
		_, err := wait(ctx, l)
		time.Sleep(time.Second)
		d.before.Store(1)
		cancel()
		synctest.Wait()
		require.Equal(t, context.Canceled, *err)
		time.Sleep(time.Minute)
		requireFree(t, l)
	})
}

func TestTheNextWaiterIsServedAfterOneThatTheStoreFailed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, l := newDisk(t, ratelimit.Deny)
		ctx, cancel := context.WithCancel(t.Context())
		wait(ctx, l)
		r, err := wait(t.Context(), l)
		d.before.Store(1)
		cancel()
		time.Sleep(time.Minute)
		synctest.Wait()
		require.NoError(t, *err)
		require.True(t, r.Allowed)
	})
}

func TestAWaiterWhoseUpdateWasNotWrittenHasNoPermits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, l := newDisk(t, ratelimit.Deny)
		d.after.Store(1)
		_, err := wait(t.Context(), l)
		require.ErrorIs(t, *err, errDisk, "while it joins the queue")
		_, err = wait(t.Context(), l)
		d.after.Store(1)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.ErrorIs(t, *err, errDisk, "while it is served")
		requireFree(t, l)
	})
}

func TestAStoreThatFailsAWaiterLetsItPassIfThePolicyDoes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, l := newDisk(t, ratelimit.Allow)
		r, err := wait(t.Context(), l)
		d.before.Store(1)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.NoError(t, *err)
		require.True(t, r.Allowed)
		require.Zero(t, r.Granted)
		require.EqualValues(t, 1, l.Stats().StoreErrors)
	})
}

func TestAChangeOfTheLimitReachesTheWaitersOfAStoreThatFails(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*ratelimit.Limiter, ratelimit.Limit) error{
		"all":     func(l *ratelimit.Limiter, limit ratelimit.Limit) error { return l.SetLimit(limit) },
		"one key": func(l *ratelimit.Limiter, limit ratelimit.Limit) error { return l.SetKeyLimit("k", limit) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d, l := newDisk(t, ratelimit.Deny)
				r, err := wait(t.Context(), l)
				d.before.Store(1)
				require.NoError(t, change(l, ratelimit.PerMinute(5)))
				synctest.Wait()
				require.NoError(t, *err)
				require.True(t, r.Allowed, "the new limit has permits left")
			})
		})
	}
}

func TestWaitersOfAStoreThatFailsNowAndThen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, l := newDisk(t, ratelimit.Deny)
		granted, failed := 0, 0
		for range 200 {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			var outcomes []*error
			for range 5 {
				_, err := wait(context.WithoutCancel(ctx), l)
				outcomes = append(outcomes, err)
			}
			_, err := wait(ctx, l)
			time.Sleep(59 * time.Second)
			d.before.Store(rand.Int64N(3))
			d.after.Store(rand.Int64N(3))
			time.Sleep(10 * time.Minute)
			synctest.Wait()
			cancel()
			for _, err := range append(outcomes, err) {
				if *err == nil {
					granted++
				} else {
					failed++
				}
			}
			d.before.Store(0)
			d.after.Store(0)
			requireFree(t, l)
			time.Sleep(time.Minute)
		}
		require.Greater(t, granted, 200)
		require.Greater(t, failed, 200)
	})
}

// A strictDisk has a value of one key, and deletes it at the time until which it has to keep it.
type strictDisk struct {
	disk

	until time.Time
}

func (d *strictDisk) Open(string) (driver.Table, error) { return keyvalue.QueueTable(d), nil }

func (d *strictDisk) Update(ctx context.Context, key string, f func(time.Time, []byte) ([]byte, time.Duration)) error {
	return d.disk.Update(ctx, key, func(now time.Time, value []byte) (next []byte, keep time.Duration) {
		if !now.Before(d.until) {
			value = nil
		}
		if next, keep = f(now, value); next != nil {
			d.until = now.Add(keep)
		}
		return next, keep
	})
}

func TestAWaiterIsServedInTheWindowThatBeginsAlsoIfTheValueIsGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &strictDisk{disk: disk{mapValues: mapValues{byKey: map[string][]byte{}}}}
		l, err := ratelimit.New(ratelimit.Config{Name: "disk", Store: d, Limit: ratelimit.PerSecond(1)})
		require.NoError(t, err)
		requireFree(t, l)
		time.Sleep(500 * time.Millisecond)
		_, waited := wait(t.Context(), l)
		time.Sleep(500 * time.Millisecond)
		synctest.Wait()
		require.NoError(t, *waited)
		time.Sleep(900 * time.Millisecond)
		r, err := l.Take(t.Context(), "k", 1)
		require.NoError(t, err)
		require.False(t, r.Allowed)
		require.Equal(t, 100*time.Millisecond, r.RetryAfter)
	})
}
