package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/outbound/jobs"
)

// nilError is an error whose methods panic if it is a nil pointer.
type nilError struct{ text string }

func (e *nilError) Error() string { return e.text }

// panicError is an error whose text is fine, but which panics when it is asked for a wait.
type panicError struct{}

func (panicError) Error() string             { return "asks for a wait" }
func (panicError) RetryAfter() time.Duration { panic("a wait") }

type panicStrategy struct{}

func (panicStrategy) Next(int, time.Duration) time.Duration { panic("a strategy") }

// A panic in an error or in a strategy of the user is a failed attempt: it does not end the process.
func TestAPanicOfAnErrorOrAStrategyIsAFailedAttempt(t *testing.T) {
	t.Parallel()
	tests := map[string]jobs.Queue{
		"error":          {Handler: func(context.Context, jobs.Job) error { var e *nilError; return e }},
		"wrapped error":  {Handler: func(context.Context, jobs.Job) error { return errors.Join(errors.New("no"), (*nilError)(nil)) }},
		"value of panic": {Handler: func(context.Context, jobs.Job) error { panic((*nilError)(nil)) }},
		"retry after":    {Handler: func(context.Context, jobs.Job) error { return fmt.Errorf("wrapped: %w", panicError{}) }},
		"backoff":        {Backoff: panicStrategy{}, Handler: func(context.Context, jobs.Job) error { return errors.New("no") }},
		"spread":         {Spread: panicStrategy{}, Handler: func(context.Context, jobs.Job) error { return &rejection{time.Second} }},
	}
	for name, q := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r, _ := start(t, q)
				id := enqueue(t, r, jobs.Job{MaxAttempts: 2})
				time.Sleep(time.Hour)
				synctest.Wait()
				s := r.Stats()
				require.Equal(t, jobs.Stats{Enqueued: 1, Retried: 1, Failed: 1}, s)
				for info, err := range r.Engine().List(t.Context(), "q", jobs.Failed) {
					require.NoError(t, err)
					require.Equal(t, id, info.ID)
					require.NotEmpty(t, info.LastError)
				}
				require.Equal(t, 1, inspect(t, r).Failed)
			})
		})
	}
}

// forgetful is an engine whose first reply to Enqueue is lost, although it has the job.
type forgetful struct {
	*jobs.Memory
	once sync.Once
}

func (f *forgetful) Enqueue(ctx context.Context, job jobs.Job) (err error) {
	err = f.Memory.Enqueue(ctx, job)
	f.once.Do(func() { err = errors.New("connection reset") })
	return err
}

// A job is not enqueued twice, if the reply of the engine is lost, and Feed counts it as fed.
func TestALostReplyMakesNoSecondJob(t *testing.T) {
	t.Parallel()
	job := jobs.Job{Queue: "q"}
	for _, id := range []string{"", "a"} {
		synctest.Test(t, func(t *testing.T) {
			r, err := jobs.New(jobs.Config{Engine: &forgetful{Memory: jobs.NewMemory(0)}})
			require.NoError(t, err)
			n, skipped, err := r.Feed(t.Context(), func(yield func(jobs.Job) bool) { yield(jobs.Job{Queue: "q", ID: id}) })
			require.NoError(t, err)
			require.Equal(t, 1, n)
			require.Zero(t, skipped)
			require.Equal(t, 1, inspect(t, r).Pending)
		})
	}
	r, err := jobs.New(jobs.Config{Engine: &forgetful{Memory: jobs.NewMemory(0)}})
	require.NoError(t, err)
	id, err := r.Enqueue(t.Context(), job)
	require.EqualError(t, err, "connection reset")
	require.NotEmpty(t, id, "the caller can repeat the call")
	job.ID = id
	_, err = r.Enqueue(t.Context(), job)
	require.ErrorIs(t, err, jobs.ErrExists)
	require.Equal(t, 1, inspect(t, r).Pending)
}

// losing is an engine whose jobs were lost with their processes.
type losing struct {
	*jobs.Memory
	losses int
}

func (l losing) Run(ctx context.Context, queue string, concurrency int, handle func(context.Context, jobs.Job) jobs.Result) error {
	return l.Memory.Run(ctx, queue, concurrency, func(ctx context.Context, job jobs.Job) jobs.Result {
		job.Losses = l.losses
		return handle(ctx, job)
	})
}

// A job fails, without a further attempt, if as many processes have ended with it as attempts can fail.
func TestLossesOfAJob(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		losses, maxAttempts int
		fails               bool
	}{{4, 5, false}, {5, 5, true}, {4, 0, false}, {5, 0, true}, {2, 1, false}, {3, 1, true}, {1000, -1, false}} {
		synctest.Test(t, func(t *testing.T) {
			var failure error
			r, _ := start(t, jobs.Queue{Handler: func(_ context.Context, job jobs.Job) error {
				require.Equal(t, c.losses, job.Losses)
				return nil
			}}, func(cfg *jobs.Config) {
				cfg.Engine = losing{jobs.NewMemory(0), c.losses}
				cfg.Hooks.Failed = func(_ context.Context, event jobs.Event) { failure = event.Err }
			})
			enqueue(t, r, jobs.Job{MaxAttempts: c.maxAttempts})
			synctest.Wait()
			if !c.fails {
				require.EqualValues(t, 1, r.Stats().Succeeded)
				return
			}
			require.Equal(t, jobs.Stats{Enqueued: 1, Failed: 1}, r.Stats())
			require.EqualError(t, failure, fmt.Sprintf("jobs: %d processes ended, or lost the engine, during the attempt", c.losses))
		})
	}
}

// slow is an engine that answers late, once it has been told to.
type slow struct {
	*jobs.Memory
	delay atomic.Int64 // nanoseconds
}

func (s *slow) Inspect(ctx context.Context, queue string) (jobs.QueueInfo, error) {
	time.Sleep(time.Duration(s.delay.Load()))
	return s.Memory.Inspect(ctx, queue)
}

// An engine that stalls does not make Feed believe that the queue is fast.
func TestASlowEngineIsNotFedTooMuch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		engine := &slow{Memory: jobs.NewMemory(0)}
		r, _ := start(t, jobs.Queue{Concurrency: 1, Backoff: backoff.Constant{}, Handler: func(context.Context, jobs.Job) error {
			time.Sleep(100 * time.Millisecond)
			return nil
		}}, func(c *jobs.Config) { c.Engine = engine })
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _, _ = r.Feed(ctx, campaign("a", 100_000, nil))
		}()
		time.Sleep(10 * time.Second)
		engine.delay.Store(int64(4 * time.Second))
		time.Sleep(10 * time.Second)
		engine.delay.Store(0)
		time.Sleep(time.Second)
		require.Less(t, inspect(t, r).Soon, 900, "a minute of 10 jobs a second")
		cancel()
		<-ended
	})
}

func TestWhatIsFedCountsAsAhead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, err := jobs.New(jobs.Config{LookAhead: jobs.Soon})
		require.NoError(t, err)
		at := time.Now().Add(jobs.Soon)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, _, err = r.Feed(ctx, func(yield func(jobs.Job) bool) {
			for yield(jobs.Job{Queue: "q", NotBefore: at}) {
			}
		})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 50, inspect(t, r).Scheduled)
	})
	require.Error(t, jobs.Config{LookAhead: jobs.Soon + 1}.Validate(), "jobs of 6 minutes ahead would not count, and all be fed")
}

// Permanent wins over what the error that it wraps asks for.
func TestPermanentWins(t *testing.T) {
	t.Parallel()
	for _, err := range []error{&rejection{time.Second}, jobs.RunAt(time.Now().Add(time.Hour)), core.ErrRejected} {
		synctest.Test(t, func(t *testing.T) {
			r, _ := start(t, jobs.Queue{Handler: func(context.Context, jobs.Job) error {
				return fmt.Errorf("call: %w", core.Permanent(err))
			}})
			enqueue(t, r, jobs.Job{})
			time.Sleep(10 * time.Second)
			synctest.Wait()
			require.Equal(t, jobs.Stats{Enqueued: 1, Failed: 1}, r.Stats(), "%v", err)
		})
	}
}

// moving is an engine that leaves out all jobs in its first lists: they change their state meanwhile.
type moving struct {
	*jobs.Memory
	lists int
}

func (m *moving) List(ctx context.Context, queue string, state jobs.State) iter.Seq2[jobs.Info, error] {
	if m.lists++; m.lists <= 2 {
		return func(func(jobs.Info, error) bool) {}
	}
	return m.Memory.List(ctx, queue, state)
}

func TestCancelLooksTwice(t *testing.T) {
	t.Parallel()
	r, err := jobs.New(jobs.Config{Engine: &moving{Memory: jobs.NewMemory(0)}})
	require.NoError(t, err)
	for range 3 {
		enqueue(t, r, jobs.Job{Campaign: "a"})
	}
	n, err := r.Cancel(t.Context(), "q", "a")
	require.NoError(t, err)
	require.Equal(t, 3, n)
	require.Zero(t, inspect(t, r).Pending)
}
