package logs_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/logs"
	"github.com/gresil/gresil/outbound/batch"
	"github.com/gresil/gresil/outbound/jobs"
	"github.com/gresil/gresil/outbound/pace"
)

func TestAPacerWhoseStoreFailsNowAndThenIsLoggedOnceInWarnEvery(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := &core.Registry{}
		store := &flakyStore{Store: core.Must(ratelimit.NewMemory(0))}
		p := core.Must(pace.New(pace.Config{Name: "v", Registry: registry, Store: store, OnStoreError: pace.Allow, Rates: []pace.Rate{{Calls: 1e6, Per: time.Second}}}))
		book, a := newBook(t, registry, slog.LevelInfo, logs.Config{})
		for i := range 200 {
			store.down.Store(i%2 == 0)
			_ = core.Must(p.Wait(t.Context(), "k", 1))
		}
		lines := book.read()
		require.Len(t, lines, 2)
		require.Equal(t, `level=WARN msg="store failed" kind=pace name=v err="pace: v: store failed: down" count=1`, lines[0])
		require.Contains(t, lines[1], `level=INFO msg="store has recovered" kind=pace name=v lasted=`)
		require.NoError(t, a.Close())
		lines = book.read()
		require.Len(t, lines, 1)
		require.Contains(t, lines[0], "count=99")
	})
}

// A flakyEngine fails while down is set.
type flakyEngine struct {
	jobs.Engine

	down atomic.Bool
}

func (e *flakyEngine) Inspect(ctx context.Context, queue string) (jobs.QueueInfo, error) {
	if e.down.Load() {
		return jobs.QueueInfo{}, errDown
	}
	return e.Engine.Inspect(ctx, queue)
}

func (e *flakyEngine) Enqueue(ctx context.Context, job jobs.Job) error {
	if e.down.Load() {
		return errDown
	}
	return e.Engine.Enqueue(ctx, job)
}

func TestAnOutageOfTheEngineOfARunnerIsLoggedWithItsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := &core.Registry{}
		e := &flakyEngine{Engine: jobs.NewMemory(0)}
		r := core.Must(jobs.New(jobs.Config{Name: "calls", Registry: registry, Engine: e, Queues: map[string]jobs.Queue{"q": {
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

// A flakyBatches fails while down is set.
type flakyBatches struct {
	batch.Store

	down atomic.Bool
}

func (s *flakyBatches) Ready(ctx context.Context, method string, after time.Duration) (batch.State, error) {
	if s.down.Load() {
		return batch.State{}, errDown
	}
	return s.Store.Ready(ctx, method, after)
}

func TestAnOutageOfTheStoreOfABatcherIsLogged(t *testing.T) {
	t.Parallel()
	for _, calls := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			registry := &core.Registry{}
			s := &flakyBatches{Store: batch.NewMemory()}
			b := core.Must(batch.New(batch.Config[int, int]{Name: "mails", Registry: registry, Store: s, Send: echo}))
			book, a := newBook(t, registry, slog.LevelInfo, logs.Config{Calls: calls})
			ctx, stop := whileRunning(t)
			defer stop()
			go func() { _ = a.Run(ctx) }()
			go func() { _ = b.Run(ctx) }()
			s.down.Store(true)
			time.Sleep(time.Hour + 30*time.Second + time.Millisecond) // no warning is due when it ends
			lines := book.read()
			require.InDelta(t, 61, len(lines), 1, "one in each minute")
			require.Equal(t, `level=WARN msg="store failed" kind=batch name=mails err="batch: store failed: down" count=1`, lines[0])
			s.down.Store(false)
			time.Sleep(time.Minute)
			lines = book.read()
			require.Len(t, lines, 1)
			require.Contains(t, lines[0], `level=INFO msg="store has recovered" kind=batch name=mails lasted=`)
		})
	}
}

// A Pacer that fails stops the batches as the store does.
func TestAnOutageOfThePacerOfABatcherIsLoggedWithItsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := &core.Registry{}
		permits := &flakyStore{Store: core.Must(ratelimit.NewMemory(0))}
		p := core.Must(pace.New(pace.Config{Name: "default", Store: permits, Rates: []pace.Rate{{Calls: 1, Per: time.Second}}}))
		b := core.Must(batch.New(batch.Config[int, int]{Name: "mails", Registry: registry, Pacer: p, FlushAfter: time.Second, Send: echo}))
		book, _ := newBook(t, registry, slog.LevelInfo, logs.Config{})
		ctx, stop := whileRunning(t)
		defer stop()
		go func() { _ = b.Run(ctx) }()
		permits.down.Store(true)
		_ = core.Must(b.Add(ctx, 1))
		time.Sleep(30*time.Second + time.Millisecond)
		lines := book.read()
		require.Len(t, lines, 1)
		require.Contains(t, lines[0], `level=WARN msg="store failed" kind=batch name=mails err="pace: default: store failed: down" count=1`)
		permits.down.Store(false)
		time.Sleep(time.Minute)
		lines = book.read()
		require.Len(t, lines, 1)
		require.Contains(t, lines[0], `level=INFO msg="store has recovered" kind=batch name=mails lasted=`)
	})
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
