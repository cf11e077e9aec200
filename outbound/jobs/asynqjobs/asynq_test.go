package asynqjobs_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/quiettest"
	"github.com/gresil/gresil/outbound/jobs"
	"github.com/gresil/gresil/outbound/jobs/asynqjobs"
)

type rejection struct{ after time.Duration }

func (r *rejection) Error() string             { return "rejected" }
func (r *rejection) Is(target error) bool      { return target == core.ErrRejected }
func (r *rejection) RetryAfter() time.Duration { return r.after }

// runAtTimes runs jobs that return RunAt(now+1.5s) a number of times each, and returns the extremes of
// their lateness. Retried is the count of asynq.
func runAtTimes(t *testing.T, s setup, n, times int) (earliest, latest time.Duration) {
	t.Helper()
	const wait = 1500 * time.Millisecond
	var mu sync.Mutex
	due, runs := map[string]time.Time{}, map[string]int{}
	earliest = time.Hour
	r, stop := s.run(t, jobs.Queue{Concurrency: n, Handler: func(_ context.Context, job jobs.Job) error {
		mu.Lock()
		defer mu.Unlock()
		if at, ok := due[job.ID]; ok {
			lateness := time.Since(at)
			earliest, latest = min(earliest, lateness), max(latest, lateness)
		}
		if task, err := s.inspector.GetTaskInfo("q", job.ID); err != nil || task.Retried != 0 {
			t.Errorf("task = %+v, %v: it was retried", task, err)
		}
		if runs[job.ID]++; runs[job.ID] > times {
			return nil
		}
		due[job.ID] = time.Now().Add(wait)
		return fmt.Errorf("later: %w", jobs.RunAt(due[job.ID]))
	}})
	for range n {
		enqueue(t, r, jobs.Job{MaxAttempts: 1})
	}
	require.Eventually(t, func() bool { return r.Stats().Succeeded == uint64(n) }, time.Duration(times+10)*6*time.Second, 10*time.Millisecond)
	stop()
	return earliest, latest
}

// asynq itself rounds the time down, and is up to a second early.
func TestATaskIsNeverEarlyAndNotBlunt(t *testing.T) {
	t.Parallel()
	for _, inline := range []time.Duration{0, -1} {
		t.Run(fmt.Sprint(inline), func(t *testing.T) {
			t.Parallel()
			s := start(t, asynqjobs.Config{Inline: inline})
			quiettest.Repeat(t, func() error {
				earliest, latest := runAtTimes(t, s, 5, 2)
				require.GreaterOrEqual(t, earliest, time.Duration(0))
				if latest >= 2500*time.Millisecond {
					return fmt.Errorf("late by %v", latest)
				}
				return nil
			})
		})
	}
}

// A short wait is exact: it does not go through Redis, but only once in a row.
func TestAShortWaitIsInTheProcess(t *testing.T) {
	t.Parallel()
	s := start(t, asynqjobs.Config{})
	var stored []bool // whether the last result is in Redis
	r, stop := s.run(t, jobs.Queue{Handler: func(_ context.Context, job jobs.Job) error {
		task, err := s.inspector.GetTaskInfo("q", job.ID)
		if err != nil {
			return err
		}
		if stored = append(stored, task.LastErr != ""); len(stored) == 4 {
			return nil
		}
		return jobs.RunAt(time.Now().Add(10 * time.Millisecond))
	}})
	enqueue(t, r, jobs.Job{})
	eventually(t, func() bool { return r.Stats().Succeeded == 1 }, "it has succeeded")
	stop()
	require.Equal(t, []bool{false, false, true, true}, stored)
}

// A job with MaxAttempts 5 is limited 50 times, and asynq counts neither a retry nor a failure.
func TestALimitedTaskIsNotRetried(t *testing.T) {
	t.Parallel()
	s := start(t, asynqjobs.Config{Inline: -1, Poll: 5 * time.Millisecond, PollScheduled: 5 * time.Millisecond})
	n := 0
	r, _ := s.run(t, jobs.Queue{Handler: func(_ context.Context, job jobs.Job) error {
		if n++; n <= 50 {
			return &rejection{0}
		}
		task, err := s.inspector.GetTaskInfo("q", job.ID)
		require.NoError(t, err)
		require.Zero(t, task.Retried)
		return nil
	}})
	enqueue(t, r, jobs.Job{MaxAttempts: 5})
	var info *asynq.QueueInfo
	eventually(t, func() (processed bool) {
		info, _ = s.inspector.GetQueueInfo("q")
		return info != nil && info.ProcessedTotal > 0
	}, "it has succeeded")
	require.Equal(t, 1, info.ProcessedTotal)
	require.EqualValues(t, 1, r.Stats().Succeeded)
	require.Zero(t, info.FailedTotal)
	require.EqualValues(t, 50, r.Stats().Limited)
}

// While a vendor cools down, its queue is paused in Redis with an expiry, and another queue with a server of its own goes on.
func TestACoolingVendorDelaysNoOtherQueue(t *testing.T) {
	t.Parallel()
	s := start(t, asynqjobs.Config{})
	until := time.Now().Add(time.Hour)
	var cooling, runs atomic.Int64
	cooling.Store(1)
	r, err := jobs.New(jobs.Config{Engine: s.Engine, Queues: map[string]jobs.Queue{
		"cooling": {Concurrency: 2, Handler: func(context.Context, jobs.Job) error {
			runs.Add(1)
			if cooling.Load() == 1 {
				return &rejection{time.Until(until)}
			}
			return nil
		}},
		"q": {Concurrency: 2, Handler: func(context.Context, jobs.Job) error { return nil }},
	}})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	eventually(t, func() bool { servers, _ := s.inspector.Servers(); return len(servers) == 2 }, "one server for each queue")
	for range 50 {
		_, err := r.Enqueue(t.Context(), jobs.Job{Queue: "cooling"})
		require.NoError(t, err)
	}
	for range 50 {
		enqueue(t, r, jobs.Job{})
	}
	eventually(t, func() bool { return r.Stats().Succeeded >= 50 }, "the other queue")
	eventually(t, func() bool { return r.Stats().Holds > 0 }, "the queue is held")
	ttl, err := s.client.PTTL(t.Context(), "asynq:{cooling}:paused").Result()
	require.NoError(t, err)
	require.InDelta(t, time.Until(until).Seconds(), ttl.Seconds(), 30)
	require.LessOrEqual(t, runs.Load(), int64(10), "few jobs ran in vain")
	cooling.Store(0)
	require.NoError(t, s.Resume(t.Context(), "cooling"))
	eventually(t, func() bool { return r.Stats().Succeeded >= 90 }, "those that have not run in vain")
	cancel()
	require.NoError(t, <-ended)
}

// The pause of a person, by any tool of asynq, is neither ended nor replaced by a hold.
func TestAPauseOfAPersonStays(t *testing.T) {
	t.Parallel()
	s := start(t, asynqjobs.Config{})
	ctx := t.Context()
	require.NoError(t, s.inspector.PauseQueue("q"))
	require.NoError(t, s.Hold(ctx, "q", time.Now().Add(20*time.Millisecond)))
	time.Sleep(100 * time.Millisecond) // the time of the server passes
	info, err := s.Inspect(ctx, "q")
	require.NoError(t, err)
	require.True(t, info.Paused)
	require.NoError(t, s.inspector.UnpauseQueue("q"))
	require.NoError(t, s.Hold(ctx, "q", time.Now().Add(time.Hour)))
	require.NoError(t, s.Pause(ctx, "q"))
	require.Equal(t, time.Duration(-1), s.client.PTTL(ctx, "asynq:{q}:paused").Val(), "it has no expiry")
	require.NoError(t, s.inspector.UnpauseQueue("q"))
	require.NoError(t, s.Hold(ctx, "q", time.Now().Add(-time.Second)))
	info, err = s.Inspect(ctx, "q")
	require.NoError(t, err)
	require.True(t, info.HeldUntil.IsZero() && !info.Paused)
}

// expire makes the leases of a queue those of a process that died two minutes ago.
func (s setup) expire(t *testing.T) {
	t.Helper()
	ids, err := s.client.ZRange(t.Context(), "asynq:{q}:lease", 0, -1).Result()
	require.NoError(t, err)
	for _, id := range ids {
		require.NoError(t, s.client.ZAdd(t.Context(), "asynq:{q}:lease", redis.Z{Score: float64(time.Now().Add(-2 * time.Minute).Unix()), Member: id}).Err())
	}
}

func TestAStuckJobIsReportedAndRepaired(t *testing.T) {
	t.Parallel()
	s := start(t, asynqjobs.Config{})
	r, err := jobs.New(jobs.Config{Engine: s.Engine})
	require.NoError(t, err)
	id, ctx := enqueue(t, r, jobs.Job{Payload: []byte("p")}), t.Context()
	// The state after an error of Redis: active without a lease. A second entry has no job.
	require.NoError(t, s.client.LMove(ctx, "asynq:{q}:pending", "asynq:{q}:active", "RIGHT", "LEFT").Err())
	require.NoError(t, s.client.HSet(ctx, "asynq:{q}:t:"+id, "state", "active").Err())
	require.NoError(t, s.client.LPush(ctx, "asynq:{q}:active", "gone").Err())
	info, err := s.Inspect(ctx, "q")
	require.NoError(t, err)
	require.Equal(t, 2, info.Stuck)

	n, err := s.Repair(ctx, "q")
	require.NoError(t, err)
	require.Equal(t, 2, n)
	info, err = s.Inspect(ctx, "q")
	require.NoError(t, err)
	require.Zero(t, info.Stuck)
	require.Equal(t, 1, info.Active)
	n, err = s.Repair(ctx, "q")
	require.NoError(t, err)
	require.Zero(t, n)
	s.expire(t)
	again, _ := s.run(t, jobs.Queue{Handler: func(_ context.Context, job jobs.Job) error {
		require.Equal(t, id, job.ID)
		require.Equal(t, "p", string(job.Payload))
		require.Equal(t, 1, job.Attempt)
		return nil
	}})
	eventually(t, func() bool { return again.Stats().Succeeded == 1 }, "it has run")
}

func TestRunRepairsIfThatIsSwitchedOn(t *testing.T) {
	t.Parallel()
	for _, repair := range []bool{true, false} {
		s := start(t, asynqjobs.Config{Repair: repair})
		require.NoError(t, s.client.LPush(t.Context(), "asynq:{q}:active", "gone").Err())
		r, _ := s.run(t, jobs.Queue{Handler: func(context.Context, jobs.Job) error { return nil }})
		if repair {
			eventually(t, func() bool { info, err := s.Inspect(t.Context(), "q"); return err == nil && info.Stuck == 0 }, "it is repaired")
			continue
		}
		enqueue(t, r, jobs.Job{})
		eventually(t, func() bool { return r.Stats().Succeeded == 1 }, "a job has run")
		info, err := s.Inspect(t.Context(), "q")
		require.NoError(t, err)
		require.Equal(t, 1, info.Stuck)
	}
}

func TestTasksOfAnotherClientAreRun(t *testing.T) {
	t.Parallel()
	s := start(t, asynqjobs.Config{})
	_, err := asynq.NewClientFromRedisClient(s.client).Enqueue(asynq.NewTask("mail:send", []byte("p")), asynq.Queue("q"), asynq.MaxRetry(2))
	require.NoError(t, err)
	var got jobs.Job
	r, stop := s.run(t, jobs.Queue{Handler: func(_ context.Context, job jobs.Job) error {
		got = job
		return nil
	}})
	eventually(t, func() bool { return r.Stats().Succeeded == 1 }, "it has run")
	stop()
	require.Equal(t, "mail:send", got.Kind)
	require.Equal(t, 3, got.MaxAttempts)
}

// Everything that is accepted is done, although Redis is killed and started again meanwhile.
func TestJobsSurviveARestartOfRedis(t *testing.T) {
	t.Parallel()
	s := start(t, asynqjobs.Config{}, "--appendonly", "yes", "--appendfsync", "always")
	var mu sync.Mutex
	runs := map[string]int{}
	r, stop := s.run(t, jobs.Queue{Concurrency: 4, Handler: func(_ context.Context, job jobs.Job) error {
		time.Sleep(time.Millisecond) // so that jobs are active when Redis is killed
		mu.Lock()
		defer mu.Unlock()
		runs[job.ID]++
		return nil
	}})
	ids := map[string]bool{}
	for i := range 200 {
		ids[enqueue(t, r, jobs.Job{ID: fmt.Sprint(i), NotBefore: time.Now().Add(time.Duration(i%3) * time.Second)})] = true
	}
	s.server.Kill()
	_, err := r.Enqueue(t.Context(), jobs.Job{Queue: "q"})
	require.Error(t, err)
	require.False(t, errors.Is(err, core.ErrConfig) || errors.Is(err, jobs.ErrExists))
	_, err = r.Snapshot(t.Context())
	require.Error(t, err)
	require.Error(t, s.Hold(t.Context(), "q", time.Now().Add(time.Minute)))
	require.NoError(t, s.server.Restart())
	eventually(t, func() bool {
		info, err := s.Inspect(t.Context(), "q")
		return err == nil && info.Pending+info.Scheduled == 0
	}, "no job waits")
	stop()
	s.expire(t) // of jobs that were taken by a command whose reply was lost
	s.run(t, jobs.Queue{Handler: func(_ context.Context, job jobs.Job) error {
		mu.Lock()
		defer mu.Unlock()
		runs[job.ID]++
		return nil
	}})
	eventually(t, func() bool {
		info, err := s.Inspect(t.Context(), "q")
		return err == nil && info.Pending+info.Scheduled+info.Active == 0
	}, "no job is left")
	mu.Lock()
	defer mu.Unlock()
	for id := range ids {
		if runs[id] == 0 {
			t.Errorf("job %s is lost", id)
		}
	}
}
