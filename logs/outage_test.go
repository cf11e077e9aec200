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
	"github.com/gresil/gresil/internal/groups"
	"github.com/gresil/gresil/internal/ratelimittest"
	"github.com/gresil/gresil/logs"
	"github.com/gresil/gresil/outbound/batch"
	"github.com/gresil/gresil/outbound/jobs"
)

// outage is a limiter in a registry whose store can fail.
type outage struct {
	*testing.T
	book    *book
	adapter *logs.Running
	store   *ratelimittest.Failing
	limiter *ratelimit.Limiter
}

func newOutage(t *testing.T, policy ratelimit.FailurePolicy) *outage {
	t.Helper()
	registry := &core.Registry{}
	store := &ratelimittest.Failing{Store: &ratelimittest.Memory{}}
	l := core.Must(ratelimit.New(ratelimit.Config{Name: "api", Registry: registry, Store: store, OnStoreError: policy}))
	b, a := newBook(t, registry, slog.LevelInfo, logs.Config{})
	return &outage{t, b, a, store, l}
}

func (o *outage) take(down bool, times int) {
	if down {
		o.store.Down()
	} else {
		o.store.Up()
	}
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

func TestRecoveryOncePerOutage(t *testing.T) {
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
func TestOutagesBetweenTwoWarnings(t *testing.T) {
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

// What was not logged is logged at the end, of Run or of the instance, unless it is long past. An outage that is not over at the end is not.
func TestEndAfterFailures(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		recovers, leaves bool
		age              time.Duration
		want             []string
	}{
		"recovered":              {recovers: true, age: time.Hour},
		"idle":                   {age: time.Hour},
		"idle, and its instance": {age: time.Hour, leaves: true},
		"recent":                 {want: []string{warned + "2"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o := newOutage(t, ratelimit.Allow)
				o.take(true, 3)
				o.want(warned + "1")
				if row.recovers {
					o.take(false, 1)
					o.want(recovered + "0s count=3")
				}
				time.Sleep(row.age)
				if row.leaves {
					require.NoError(t, o.limiter.Close())
				} else {
					require.NoError(t, o.adapter.Close())
				}
				o.want(row.want...)
			})
		})
	}
}

// A flakyEngine fails while down is set.
type flakyEngine struct {
	groups.Queue

	down atomic.Bool
}

func (e *flakyEngine) Inspect(ctx context.Context, queues ...string) ([]groups.Counts, error) {
	if e.down.Load() {
		return nil, errDown
	}
	return e.Queue.Inspect(ctx, queues...)
}

func (e *flakyEngine) Enqueue(ctx context.Context, job groups.Job, most int) error {
	if e.down.Load() {
		return errDown
	}
	return e.Queue.Enqueue(ctx, job, most)
}

func TestEngineOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := &core.Registry{}
		e := &flakyEngine{Queue: groups.Open(jobs.Memory())}
		r := core.Must(jobs.New(jobs.Config{Name: "calls", Registry: registry, Engine: groups.NewEngine(e, nil), Queues: map[string]jobs.Queue{"q": {
			Handler: func(context.Context, jobs.Job) error { return nil },
		}}}))
		book, a := newBook(t, registry, slog.LevelInfo, logs.Config{})
		ctx, stop := whileRunning(t)
		defer stop()
		go func() { _ = a.Run(ctx) }()
		e.down.Store(true)
		go func() { _ = r.Run(ctx) }()
		for range 5 {
			go func() {
				_, _, _ = r.Feed(ctx, func(yield func(jobs.Job) bool) {
					for yield(jobs.Job{Queue: "q"}) {
						time.Sleep(time.Second)
					}
				})
			}()
		}
		time.Sleep(50*time.Second + time.Millisecond) // no call fails when it ends
		lines := book.read()
		require.Len(t, lines, 1)
		require.Contains(t, lines[0], `level=WARN msg="engine failed" kind=jobs name=calls queue=`)
		require.Contains(t, lines[0], "err=down count=1")
		e.down.Store(false)
		time.Sleep(5 * time.Minute)
		lines = book.read()
		require.Len(t, lines, 1)
		require.Contains(t, lines[0], `level=INFO msg="engine has recovered" kind=jobs name=calls lasted=50`)
	})
}

// A flakyGroups fails while down is set.
type flakyGroups struct {
	groups.Store

	down atomic.Bool
}

func (s *flakyGroups) Take(ctx context.Context, queue string, t groups.Terms) (groups.Batch, groups.State, error) {
	if s.down.Load() {
		return groups.Batch{}, groups.State{}, errDown
	}
	return s.Store.Take(ctx, queue, t)
}

func TestBatcherEngineOutage(t *testing.T) {
	t.Parallel()
	for _, calls := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			registry := &core.Registry{}
			s := &flakyGroups{Store: groups.NewMemory()}
			b := core.Must(batch.New(batch.Config[int, int]{Name: "mails", Registry: registry, Engine: groups.NewEngine(groups.Open(jobs.Memory()), s), Send: echo}))
			book, a := newBook(t, registry, slog.LevelInfo, logs.Config{Calls: calls})
			ctx, stop := whileRunning(t)
			defer stop()
			go func() { _ = a.Run(ctx) }()
			go func() { _ = b.Run(ctx) }()
			s.down.Store(true)
			time.Sleep(time.Hour + 30*time.Second + time.Millisecond) // no warning is due when it ends
			lines := book.read()
			require.InDelta(t, 61, len(lines), 1, "one in each minute")
			require.Equal(t, `level=WARN msg="engine failed" kind=batch name=mails err=down count=1`, lines[0])
			s.down.Store(false)
			time.Sleep(time.Minute)
			lines = book.read()
			require.Len(t, lines, 1)
			require.Contains(t, lines[0], `level=INFO msg="engine has recovered" kind=batch name=mails lasted=`)
		})
	}
}

// whileRunning returns a context, and a function that ends it and waits for what runs under it.
func whileRunning(t *testing.T) (ctx context.Context, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	return ctx, func() {
		cancel()
		time.Sleep(2 * time.Second)
	}
}

func echo(_ context.Context, _ string, records []int) ([]batch.Result[int], error) {
	return make([]batch.Result[int], len(records)), nil
}
