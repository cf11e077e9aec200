package bulkhead_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/bulkhead"
	"github.com/gresil/gresil/internal/eventtest"
	"github.com/gresil/gresil/internal/registry"
)

func TestEvents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		type ctxKey struct{}
		var seen []string
		b := newBulkhead(t, bulkhead.Config{Limit: 2, MaxWait: time.Second, Backoff: 0.5, Registry: eventtest.Registry(func(ctx context.Context, e registry.Event) {
			if of, ok := ctx.Value(ctxKey{}).(string); ok {
				seen = append(seen, fmt.Sprint(of, ": ", e.Text, " ", e.Key, e.Attrs, e.Call))
			}
		})})
		as := func(ctx string) context.Context { return context.WithValue(t.Context(), ctxKey{}, ctx) }
		p, err := b.Acquire(as("one"), "k", 2)
		require.NoError(t, err)
		_, err = b.Acquire(as("two"), "k", 1)
		require.Error(t, err)
		p.Done(core.Failure)
		require.NoError(t, b.Close())
		b = newBulkhead(t, bulkhead.Config{Limit: 1, MaxQueue: -1, Registry: b.Config().Registry})
		acquire(t, b, "", 1)
		_, err = b.Acquire(as("three"), "", 1)
		require.Error(t, err)
		require.Equal(t, []string{
			"two: call rejected, since the bulkhead is full k[weight=1 waited=1s] true",
			"one: limit of calls in flight lowered k[old=2 limit=1] false",
			"three: call rejected, since the bulkhead is full [weight=1 waited=0s] true",
		}, seen)
	})
}

func TestFigures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &core.Registry{}
		b := newBulkhead(t, bulkhead.Config{Limit: 4, MaxWait: time.Second, Backoff: 0.5, Registry: r})
		p, q := acquire(t, b, "k", 3), acquire(t, b, "other", 1)
		rejected, canceled, waits := enter(t, b, "k", 2), enter(t, b, "k", 2), enter(t, b, "k", 2)
		canceled.cancel(nil)
		time.Sleep(time.Second / 2)
		late := enter(t, b, "k", 2)
		time.Sleep(time.Second / 2)
		synctest.Wait()
		p.Done(core.Failure)
		synctest.Wait()
		require.Error(t, rejected.err)
		require.Error(t, waits.err)
		require.NoError(t, late.err)
		q.Done(core.Success)
		var got []string
		for _, f := range eventtest.Source(r).Figures() {
			n := f.N
			if f.Dist != nil {
				n = f.Dist.Sum.Seconds()
			}
			got = append(got, fmt.Sprint(f.Name, " ", strings.Join(f.Labels, " "), " ", n))
		}
		require.Equal(t, []string{
			"calls_total result admitted 3", "calls_total result rejected 2", "calls_total result canceled 1",
			"limit_changes_total direction lowered 1", "limit_changes_total direction raised 0",
			"in_flight  2", "limit  6", "waiting  0", "keys  2", "wait_seconds  0.5",
		}, got)
	})
}

// No lock is held while an event is emitted.
func TestObserverUsesBulkhead(t *testing.T) {
	t.Parallel()
	var b *bulkhead.Bulkhead
	var told []string
	use := func(ctx context.Context, e registry.Event) {
		if e.Text == "config replaced" || e.Key == "other" {
			return
		}
		told = append(told, e.Text)
		b.Stats()
		p, err := b.Acquire(ctx, "other", 1)
		if err == nil {
			p.Done(core.Success)
		}
		if err := b.SetConfig(b.Config()); err != nil {
			t.Error(err)
		}
	}
	b = newBulkhead(t, bulkhead.Config{Limit: 4, MaxWait: time.Nanosecond, Backoff: 0.5, Registry: eventtest.Registry(use)})
	p := acquire(t, b, "k", 4)
	_, err := b.Acquire(t.Context(), "k", 1)
	require.ErrorIs(t, err, bulkhead.ErrFull)
	p.Done(core.Failure)
	require.Equal(t, []string{"call rejected, since the bulkhead is full", "limit of calls in flight lowered"}, told)
}
