package bulkhead_test

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/bulkhead"
	"github.com/gresil/gresil/internal/eventtest"
	"github.com/gresil/gresil/internal/registry"
)

// At no moment do calls hold more permits than the limit: with weights, waits, abandoned
// waits, and keys that are forgotten all the time.
func TestNeverMoreThanTheLimitIsInFlight(t *testing.T) {
	t.Parallel()
	const limit, goroutines, calls = 5, 8, 1000
	for name, cfg := range map[string]bulkhead.Config{
		"no queue":     {MaxQueue: -1},
		"queue":        {MaxWait: -1},
		"newest first": {NewestFirst: true, MaxQueue: 2},
		"few keys":     {MaxKeys: 1, MaxQueue: 3},
		"adaptive":     {Backoff: 0.5, MaxQueue: 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg.Limit = limit
			b := newBulkhead(t, cfg)
			var held [3]atomic.Int64
			var admitted atomic.Uint64
			var wg sync.WaitGroup
			for g := range goroutines {
				wg.Go(func() {
					r := rand.New(rand.NewPCG(uint64(g), 3))
					for range calls {
						k, weight := r.IntN(3), 1+r.IntN(limit)
						key := strconv.Itoa(k)
						if k == 0 {
							key = ""
						}
						ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+r.IntN(100))*time.Microsecond)
						p, err := b.AcquireN(ctx, key, weight)
						if err == nil {
							admitted.Add(1)
							if n := held[k].Add(int64(weight)); n > limit {
								t.Errorf("%d permits are held", n)
							}
							held[k].Add(-int64(weight))
							p.Done(core.Outcome(r.IntN(3)))
						}
						cancel()
						if r.IntN(100) == 0 {
							b.Stats()
						}
					}
				})
			}
			wg.Wait()
			s := b.Stats()
			require.Zero(t, s.InFlight)
			require.Zero(t, s.Waiting)
			require.Equal(t, admitted.Load(), s.Admitted)
			require.Equal(t, uint64(goroutines*calls), s.Admitted+s.Rejected+s.Canceled)
			acquire(t, b, "", limit).Done(core.Ignored)
		})
	}
}

// The limit changes up and down while calls run: in the end all permits are there.
func TestLimitsThatChangeLoseNoPermit(t *testing.T) {
	t.Parallel()
	b := newBulkhead(t, bulkhead.Config{Limit: 4, MaxWait: -1})
	var calls, changes sync.WaitGroup
	stop := make(chan struct{})
	changes.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				cfg := bulkhead.Config{Limit: 1 + i%7, MaxWait: -1, Backoff: float64(i%3) / 4, NewestFirst: i%5 == 0}
				if err := b.SetConfig(cfg); err != nil {
					t.Error(err)
				}
			}
		}
	})
	for g := range 8 {
		calls.Go(func() {
			for i := range 1000 {
				p, err := b.Acquire(t.Context(), "")
				if err != nil {
					t.Error(err)
					return
				}
				p.Done(core.Outcome((g + i) % 3))
			}
		})
	}
	calls.Wait()
	close(stop)
	changes.Wait()
	require.NoError(t, b.SetConfig(bulkhead.Config{Limit: 9}))
	require.Equal(t, bulkhead.Stats{Limit: 9}, stateOf(t, b, ""))
	acquire(t, b, "", 9)
}

// No lock is held.
func TestObserverUsesTheBulkhead(t *testing.T) {
	t.Parallel()
	var b *bulkhead.Bulkhead
	var told []string
	use := func(ctx context.Context, e registry.Event) {
		if e.Text == "config replaced" || e.Key == "other" {
			return
		}
		told = append(told, e.Text)
		b.Stats()
		p, err := b.Acquire(ctx, "other")
		if err == nil {
			p.Done(core.Success)
		}
		if err := b.SetConfig(b.Config()); err != nil {
			t.Error(err)
		}
	}
	b = newBulkhead(t, bulkhead.Config{Limit: 4, MaxWait: time.Nanosecond, Backoff: 0.5, Registry: eventtest.Registry(use)})
	p := acquire(t, b, "k", 4)
	_, err := b.Acquire(t.Context(), "k")
	require.ErrorIs(t, err, bulkhead.ErrFull)
	p.Done(core.Failure)
	require.Equal(t, []string{"call rejected, since the bulkhead is full", "limit of calls in flight lowered"}, told)
}
