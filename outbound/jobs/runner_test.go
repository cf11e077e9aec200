package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/groups"
	"github.com/gresil/gresil/outbound/gate"
	"github.com/gresil/gresil/outbound/jobs"
)

// start runs the queue "q" in the bubble of the test, until the test ends or stop is called.
func start(t *testing.T, q jobs.Queue, change ...func(*jobs.Config)) (r *jobs.Runner, stop func()) {
	t.Helper()
	cfg := jobs.Config{Queues: map[string]jobs.Queue{"q": q}, Registry: &core.Registry{}}
	for _, f := range change {
		f(&cfg)
	}
	r, err := jobs.New(cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			cancel()
			require.NoError(t, <-ended)
		}
	}
	t.Cleanup(stop)
	return r, stop
}

func enqueue(t *testing.T, r *jobs.Runner, job jobs.Job) string {
	t.Helper()
	if job.Queue == "" {
		job.Queue = "q"
	}
	id, err := r.Enqueue(context.Background(), job)
	require.NoError(t, err)
	return id
}

func inspect(t *testing.T, r *jobs.Runner) jobs.QueueInfo {
	t.Helper()
	info, err := r.Queue(context.Background(), "q")
	require.NoError(t, err)
	return info
}

// unwatched is for long times: Run does not read the queues of a runner that is not registered.
func unwatched(c *jobs.Config) { c.Registry = nil }

func nothing(context.Context, jobs.Job) error { return nil }

// A fault is an engine with methods of its own.
type fault struct {
	groups.Queue

	enqueue func(ctx context.Context, j groups.Job, most int) error
	run     func(ctx context.Context, queue string, w groups.Worker)
	inspect func(ctx context.Context, queues ...string) ([]groups.Counts, error)
}

func newFault() *fault {
	m := groups.Open(jobs.Memory())
	return &fault{m, m.Enqueue, m.Run, m.Inspect}
}

func (f *fault) Enqueue(ctx context.Context, j groups.Job, most int) error {
	return f.enqueue(ctx, j, most)
}
func (f *fault) Run(ctx context.Context, queue string, w groups.Worker) { f.run(ctx, queue, w) }
func (f *fault) Inspect(ctx context.Context, queues ...string) ([]groups.Counts, error) {
	return f.inspect(ctx, queues...)
}

func (f *fault) engine(c *jobs.Config) { c.Engine = groups.NewEngine(f, nil) }

// A client of Redis repeats a command whose reply was lost.
func TestEnqueueOfLostReply(t *testing.T) {
	t.Parallel()
	f := newFault()
	m := f.Queue
	f.enqueue = func(ctx context.Context, j groups.Job, most int) error {
		return errors.Join(m.Enqueue(ctx, j, most), m.Enqueue(ctx, j, most))
	}
	r, err := jobs.New(jobs.Config{Engine: groups.NewEngine(f, nil)})
	require.NoError(t, err)
	_, err = r.Enqueue(t.Context(), jobs.Job{Queue: "q"})
	require.NoError(t, err)
	_, err = r.Enqueue(t.Context(), jobs.Job{Queue: "q", ID: "a"})
	require.ErrorIs(t, err, jobs.ErrExists)
	require.Equal(t, jobs.Stats{Enqueued: 1, Skipped: 1}, r.Stats())
}

func TestEnqueueAfterEndOfCaller(t *testing.T) {
	t.Parallel()
	r, err := jobs.New(jobs.Config{})
	require.NoError(t, err)
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("the caller has left")
	cancel(cause)
	id, err := r.Enqueue(ctx, jobs.Job{Queue: "q", ID: "a"})
	require.Equal(t, []any{"a", cause}, []any{id, err})
	require.Zero(t, inspect(t, r))
}

func TestMaxPending(t *testing.T) {
	t.Parallel()
	r, err := jobs.New(jobs.Config{MaxPending: 2})
	require.NoError(t, err)
	enqueue(t, r, jobs.Job{})
	id := enqueue(t, r, jobs.Job{})
	_, err = r.Enqueue(t.Context(), jobs.Job{Queue: "q"})
	require.ErrorIs(t, err, jobs.ErrFull)
	require.ErrorIs(t, err, core.ErrRejected)
	require.NoError(t, r.Delete(t.Context(), "q", id))
	enqueue(t, r, jobs.Job{})
}

func TestStop(t *testing.T) {
	t.Parallel()
	for grace, want := range map[time.Duration]time.Duration{0: 10 * time.Second, -1: 0, time.Minute: time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			var stopped time.Duration
			begin, engine := time.Now(), jobs.Memory()
			with := func(c *jobs.Config) { c.Engine, c.Grace = engine, grace }
			r, stop := start(t, jobs.Queue{Concurrency: 2, Handler: func(ctx context.Context, job jobs.Job) error {
				if job.ID == "quick" {
					time.Sleep(5 * time.Second)
					return nil
				}
				<-ctx.Done()
				stopped = time.Since(begin)
				return errors.New("the connection was cut") // does not match context.Canceled
			}}, with)
			enqueue(t, r, jobs.Job{MaxAttempts: 1})
			enqueue(t, r, jobs.Job{ID: "quick"})
			enqueue(t, r, jobs.Job{})
			synctest.Wait()
			require.ErrorContains(t, r.Run(t.Context()), "is running already")
			stop()
			require.Equal(t, want, stopped)
			require.Equal(t, 2, inspect(t, r).Pending)
			require.EqualValues(t, 1, r.Stats().Limited)
			require.EqualValues(t, 1, r.Stats().Succeeded, "a handler that ignores its context is waited for")

			again, _ := start(t, jobs.Queue{Handler: func(_ context.Context, job jobs.Job) error {
				require.Equal(t, 1, job.Attempt)
				return nil
			}}, with)
			synctest.Wait()
			require.EqualValues(t, 2, again.Stats().Succeeded)
		})
	}
}

// A runner without queues runs as long as one with some.
func TestRunWithoutQueues(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(r *jobs.Runner, cancel func()) error{
		"ctx":   func(_ *jobs.Runner, cancel func()) error { cancel(); return nil },
		"Close": func(r *jobs.Runner, _ func()) error { return r.Close(context.Background()) },
	} {
		synctest.Test(t, func(t *testing.T) {
			r, err := jobs.New(jobs.Config{})
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			begin := time.Now()
			time.AfterFunc(time.Minute, func() { assert.NoError(t, end(r, cancel)) })
			require.NoError(t, r.Run(ctx))
			require.Equal(t, time.Minute, time.Since(begin), name)
		})
	}
}

// A call that its gate permits when the process stops is not begun: it would be cut when it is under way.
func TestStopBeforeCall(t *testing.T) {
	t.Parallel()
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			r, err := jobs.New(jobs.Config{Queues: map[string]jobs.Queue{"q": {
				Gate:     core.Must(gate.New(gate.Config{})),
				GateCall: func(jobs.Job) gate.Call { stop(); return gate.Call{} },
				Handler:  func(context.Context, jobs.Job) error { t.Error("it has begun"); return nil },
			}}})
			require.NoError(t, err)
			enqueue(t, r, jobs.Job{})
			require.NoError(t, r.Run(ctx))
			require.Equal(t, 1, inspect(t, r).Pending)
		})
	}
}

// A job that was lost before its attempt is not begun, as another process may run it.
func TestLostBeforeAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFault()
		m, first := f.Queue, true
		f.run = func(ctx context.Context, queue string, w groups.Worker) {
			next := w.Handle
			w.Handle = func(ctx context.Context, e groups.Entry) groups.Verdict {
				ctx, cancel := context.WithCancel(ctx)
				defer cancel()
				if first {
					cancel()
				}
				first = false
				return next(ctx, e)
			}
			m.Run(ctx, queue, w)
		}
		r, _ := start(t, jobs.Queue{Handler: func(ctx context.Context, _ jobs.Job) error {
			require.NoError(t, ctx.Err())
			return nil
		}}, f.engine)
		enqueue(t, r, jobs.Job{})
		synctest.Wait()
		require.False(t, first)
		require.EqualValues(t, 1, r.Stats().Succeeded)
	})
}

// In memory, what is due runs before Close returns, and what waits for the vendor alone, but not what RunAt puts off. What is lost is
// reported.
func TestClose(t *testing.T) {
	t.Parallel()
	lost := func(n int) string { return fmt.Sprintf("jobs: closed without an Engine, %d jobs are lost", n) }
	for name, c := range map[string]struct {
		patience time.Duration
		future   bool // there is a job of the future too
		pause    bool
		done     uint64
		err      string
		again    string // the error of a second Close
	}{
		"all":      {time.Hour, false, false, 6, "", ""},
		"future":   {time.Hour, true, false, 6, lost(1), lost(1)},
		"RunAt":    {time.Hour, false, false, 5, lost(1), lost(1)},
		"too late": {25 * time.Second, true, false, 2, "jobs: closed before all was done, 5 jobs are lost: context deadline exceeded", lost(5)},
		"paused":   {time.Hour, true, true, 1, lost(6), lost(6)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				limited := false
				r, _ := start(t, jobs.Queue{Concurrency: 1, Handler: func(ctx context.Context, job jobs.Job) error {
					if job.ID == "3" && !limited {
						limited = true
						if name == "RunAt" {
							return fmt.Errorf("later: %w", jobs.RunAt(time.Now().Add(5*time.Minute)))
						}
						return refusal{5 * time.Minute}
					}
					select {
					case <-time.After(10 * time.Second):
						return nil
					case <-ctx.Done():
						return ctx.Err()
					}
				}})
				for i := range 6 {
					enqueue(t, r, jobs.Job{ID: fmt.Sprint(i)})
				}
				if c.future {
					enqueue(t, r, jobs.Job{NotBefore: time.Now().Add(time.Hour)})
				}
				time.Sleep(time.Second)
				if c.pause {
					require.NoError(t, r.Pause(t.Context(), "q"))
				}
				ctx, cancel := context.WithTimeout(t.Context(), c.patience-time.Second)
				defer cancel()
				for _, want := range []string{c.err, c.again} {
					if err := r.Close(ctx); want == "" {
						require.NoError(t, err)
					} else {
						require.EqualError(t, err, want)
					}
				}
				require.Equal(t, c.done, r.Stats().Succeeded)
				_, err := r.Enqueue(t.Context(), jobs.Job{Queue: "q"})
				require.ErrorIs(t, err, jobs.ErrClosed)
				require.ErrorIs(t, err, core.ErrRejected)
				require.ErrorIs(t, r.Run(t.Context()), jobs.ErrClosed)
			})
		})
	}
}

// A job that is deleted is not waited for.
func TestCloseAfterDelete(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		r, _ := start(t, jobs.Queue{Handler: func(context.Context, jobs.Job) error { return refusal{time.Hour} }})
		id := enqueue(t, r, jobs.Job{})
		synctest.Wait()
		go func() {
			time.Sleep(time.Minute)
			_ = r.Delete(t.Context(), "q", id)
		}()
		require.NoError(t, r.Close(t.Context()))
		require.Equal(t, time.Minute, time.Since(begin))
	})
}

// While one queue is drained, another that is idle takes no job that becomes due.
func TestCloseOfTwoQueues(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var ran atomic.Int64
		queue := func(takes time.Duration) jobs.Queue {
			return jobs.Queue{Handler: func(context.Context, jobs.Job) error { time.Sleep(takes); ran.Add(1); return nil }}
		}
		r, err := jobs.New(jobs.Config{Queues: map[string]jobs.Queue{"slow": queue(time.Minute), "idle": queue(0)}})
		require.NoError(t, err)
		over := make(chan error)
		go func() { over <- r.Run(t.Context()) }()
		enqueue(t, r, jobs.Job{Queue: "slow"})
		enqueue(t, r, jobs.Job{Queue: "idle", NotBefore: time.Now().Add(30 * time.Second)})
		synctest.Wait()
		require.EqualError(t, r.Close(t.Context()), "jobs: closed without an Engine, 1 jobs are lost")
		require.EqualValues(t, 1, ran.Load())
		require.NoError(t, <-over)
	})
}

// Without a Run, what is in an Engine is not lost, and what is in none is.
func TestCloseWithoutRun(t *testing.T) {
	t.Parallel()
	for _, engine := range []*jobs.Engine{nil, jobs.Memory()} {
		r, err := jobs.New(jobs.Config{Engine: engine})
		require.NoError(t, err)
		enqueue(t, r, jobs.Job{})
		if err := r.Close(t.Context()); engine == nil {
			require.EqualError(t, err, "jobs: closed without an Engine, 1 jobs are lost")
		} else {
			require.NoError(t, err)
		}
	}
}

// Each job that was accepted beside Close is counted as lost.
func TestCloseBesideEnqueue(t *testing.T) {
	t.Parallel()
	for range 200 {
		r, err := jobs.New(jobs.Config{})
		require.NoError(t, err)
		var accepted atomic.Int64
		var group sync.WaitGroup
		for range 4 {
			group.Go(func() {
				for {
					if _, err := r.Enqueue(t.Context(), jobs.Job{Queue: "q"}); err != nil {
						assert.ErrorIs(t, err, jobs.ErrClosed)
						return
					}
					accepted.Add(1)
				}
			})
		}
		for accepted.Load() == 0 {
			runtime.Gosched()
		}
		err = r.Close(t.Context())
		group.Wait()
		require.EqualError(t, err, fmt.Sprintf("jobs: closed without an Engine, %d jobs are lost", accepted.Load()))
	}
}

// An engine whose jobs outlive the process is not drained.
func TestCloseOfDurable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, _ := start(t, jobs.Queue{Concurrency: 1, Handler: func(ctx context.Context, _ jobs.Job) error {
			<-ctx.Done()
			return ctx.Err()
		}}, newFault().engine)
		enqueue(t, r, jobs.Job{})
		enqueue(t, r, jobs.Job{})
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.EqualError(t, r.Close(ctx), "jobs: closed before all was done, 0 jobs are lost: context deadline exceeded")
		require.Equal(t, 2, inspect(t, r).Pending)
	})
}
