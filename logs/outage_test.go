package logs_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/logs"
)

// A flakyStore fails while down is set.
type flakyStore struct {
	ratelimit.Store
	down atomic.Bool
}

func (s *flakyStore) Open(name string) (limits.Table, error) {
	t, err := s.Store.Open(name)
	return flakyTable{t, s}, err
}

type flakyTable struct {
	limits.Table
	store *flakyStore
}

func (t flakyTable) Apply(ctx context.Context, key string, plan *limits.Plan, op limits.Op) (ratelimit.Result, error) {
	if t.store.down.Load() {
		return ratelimit.Result{}, errDown
	}
	return t.Table.Apply(ctx, key, plan, op)
}

// outage is a limiter in a registry whose store can fail.
type outage struct {
	*testing.T
	book    *book
	adapter *logs.Running
	store   *flakyStore
	limiter *ratelimit.Limiter
}

func newOutage(t *testing.T, policy ratelimit.FailurePolicy) *outage {
	t.Helper()
	registry := &core.Registry{}
	store := &flakyStore{Store: core.Must(ratelimit.NewMemory(0))}
	l := core.Must(ratelimit.New(ratelimit.Config{Name: "api", Registry: registry, Store: store, OnStoreError: policy}))
	b, a := newBook(t, registry, slog.LevelInfo, logs.Config{})
	return &outage{t, b, a, store, l}
}

func (o *outage) take(down bool, times int) {
	o.store.down.Store(down)
	for range times {
		_, _ = o.limiter.Take(o.Context(), "k", 1)
	}
}

func (o *outage) want(lines ...string) {
	o.Helper()
	var want []string
	for _, line := range lines {
		want = append(want, fmt.Sprintf(line, "kind=ratelimit name=api"))
	}
	require.Equal(o, want, o.book.read())
}

const (
	warned    = `level=WARN msg="limit store failed" %s err="ratelimit: api: store failed: down" count=`
	recovered = `level=INFO msg="limit store recovered" %s lasted=`
)

func TestARecoveredStoreIsLoggedOncePerOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := newOutage(t, ratelimit.Allow)
		for range 2 {
			o.take(true, 1)
			o.want(warned + "1")
			time.Sleep(10 * time.Second)
			o.take(true, 4)
			time.Sleep(10 * time.Second)
			o.take(false, 3)
			o.want(recovered + "20s count=5")
			time.Sleep(time.Minute)
		}
		o.take(false, 3)
		require.NoError(t, o.adapter.Close())
		o.want()
	})
}

// A store that fails now and then adds no more records than one that fails for good.
func TestOutagesBetweenTwoWarningsAreLoggedTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := newOutage(t, ratelimit.Deny)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- o.adapter.Run(ctx) }()
		flap := func() {
			o.take(true, 1)
			time.Sleep(time.Second)
			o.take(false, 1)
		}
		flap()
		o.want(warned+"1", recovered+"1s count=1")
		for range 10 {
			flap()
			time.Sleep(time.Second)
		}
		o.want()
		time.Sleep(time.Minute)
		o.want(recovered + "10s count=10")
		time.Sleep(time.Minute)
		flap()
		o.want(warned+"1", recovered+"1s count=1")
		cancel()
		require.NoError(t, <-ended)
	})
}

func TestCloseDoesNotWarnOfFailuresLongPast(t *testing.T) {
	t.Parallel()
	for name, recovers := range map[string]bool{"recovered": true, "idle": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o := newOutage(t, ratelimit.Allow)
				o.take(true, 3)
				o.want(warned + "1")
				if recovers {
					o.take(false, 1)
					o.want(recovered + "0s count=3")
				}
				time.Sleep(time.Hour)
				require.NoError(t, o.adapter.Close())
				o.want()
			})
		})
	}
}

// The outage that is not over at Close is not long past.
func TestCloseWarnsOfRecentFailures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := newOutage(t, ratelimit.Allow)
		o.take(true, 3)
		o.want(warned + "1")
		require.NoError(t, o.adapter.Close())
		o.want(warned + "2")
	})
}

// The instance is gone, so its failures are reported as at Close.
func TestALimiterThatLeavesDoesNotWarnOfFailuresLongPast(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := newOutage(t, ratelimit.Allow)
		o.take(true, 3)
		o.want(warned + "1")
		time.Sleep(time.Hour)
		require.NoError(t, o.limiter.Close())
		o.want()
	})
}
