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
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/internal/quiettest"
	"github.com/gresil/gresil/outbound/jobs"
	"github.com/gresil/gresil/outbound/jobs/asynqjobs"
)

// runAtTimes runs jobs that return RunAt(now+wait) a number of times each, and returns the extremes of
// their lateness. Retried is the count of asynq.
func runAtTimes(t *testing.T, s setup, wait time.Duration, n, times int) (earliest, latest time.Duration) {
	t.Helper()
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
func TestNeverEarlyNorBlunt(t *testing.T) {
	t.Parallel()
	for _, wait := range []time.Duration{1500 * time.Millisecond, 2300 * time.Millisecond} { // in the process, in Redis
		t.Run(wait.String(), func(t *testing.T) {
			t.Parallel()
			s := start(t, asynqjobs.Config{})
			quiettest.Repeat(t, func() error {
				earliest, latest := runAtTimes(t, s, wait, 5, 2)
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
func TestShortWaitInProcess(t *testing.T) {
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

// Tasks of other clients run, by the rules of asynq: one whose deadline is over has failed.
func TestTasksOfAnotherClient(t *testing.T) {
	t.Parallel()
	s := start(t, asynqjobs.Config{Poll: 5 * time.Millisecond})
	client := asynq.NewClientFromRedisClient(s.client)
	for retries, deadline := range map[int]time.Duration{0: -time.Minute, 1: -time.Minute, 2: time.Minute} {
		_, err := client.Enqueue(asynq.NewTask("mail:send", []byte("p")), asynq.Queue("q"), asynq.MaxRetry(retries), asynq.Deadline(time.Now().Add(deadline)))
		require.NoError(t, err)
	}
	var got jobs.Job
	r, _ := s.run(t, jobs.Queue{Handler: func(_ context.Context, job jobs.Job) error {
		got = job
		return nil
	}})
	eventually(t, func() bool {
		c := s.counts(t)
		return c.Failed == 1 && c.Scheduled == 1 && r.Stats().Succeeded == 1
	}, "the first has failed, the second waits, the third has run")
	require.Equal(t, []any{3, "p"}, []any{got.MaxAttempts, string(got.Payload)})
}

// The clock of another process is ahead: it has made a job pending too early. The job waits for its time.
func TestClockOfAnotherProcess(t *testing.T) {
	t.Parallel()
	s := start(t, asynqjobs.Config{})
	var early atomic.Int64
	due := time.Now().Add(1500 * time.Millisecond)
	r, err := jobs.New(jobs.Config{Engine: s.engine})
	require.NoError(t, err)
	id := enqueue(t, r, jobs.Job{NotBefore: due})
	require.NoError(t, s.inspector.RunTask("q", id)) // as that process would
	again, _ := s.run(t, jobs.Queue{Handler: func(context.Context, jobs.Job) error {
		early.Store(int64(time.Until(due)))
		return nil
	}})
	eventually(t, func() bool { return again.Stats().Succeeded == 1 }, "it has run")
	require.LessOrEqual(t, early.Load(), int64(0))
}

// Everything that is accepted is done, although Redis is killed and started again meanwhile.
func TestRestartOfRedis(t *testing.T) {
	t.Parallel()
	s := start(t, asynqjobs.Config{}, "--appendonly", "yes", "--appendfsync", "always")
	var mu sync.Mutex
	runs := map[string]int{}
	handler := func(_ context.Context, job jobs.Job) error {
		time.Sleep(time.Millisecond) // so that jobs are active when Redis is killed
		mu.Lock()
		defer mu.Unlock()
		runs[job.ID]++
		return nil
	}
	r, stop := s.run(t, jobs.Queue{Concurrency: 4, Handler: handler})
	ids := map[string]bool{}
	for i := range 200 {
		ids[enqueue(t, r, jobs.Job{ID: fmt.Sprint(i), NotBefore: time.Now().Add(time.Duration(i%3) * time.Second)})] = true
	}
	s.server.Kill()
	_, err := r.Enqueue(t.Context(), jobs.Job{Queue: "q"})
	require.Error(t, err)
	require.False(t, errors.Is(err, core.ErrConfig) || errors.Is(err, jobs.ErrExists) || errors.Is(err, jobs.ErrFull))
	_, err = r.Queue(t.Context(), "q")
	require.Error(t, err)
	require.Error(t, s.Hold(t.Context(), "q", time.Now().Add(time.Minute)))
	require.NoError(t, s.server.Restart())
	left := func(active int) bool {
		all, err := s.Inspect(t.Context(), "q")
		return err == nil && all[0].Pending+all[0].Scheduled+active*all[0].Active == 0
	}
	eventually(t, func() bool { return left(0) }, "no job waits")
	stop()
	s.expire(t) // of jobs that were taken by a command whose reply was lost
	s.run(t, jobs.Queue{Handler: handler})
	eventually(t, func() bool { return left(1) }, "no job is left")
	mu.Lock()
	defer mu.Unlock()
	for id := range ids {
		require.Positive(t, runs[id], "job %s is lost", id)
	}
}

// A job that fails waits for its Backoff in Redis, and the server of an idle queue ends meanwhile.
func TestServerWhileThereIsWork(t *testing.T) {
	t.Parallel()
	s := start(t, asynqjobs.Config{})
	r, _ := s.run(t, jobs.Queue{Backoff: backoff.Constant{Delay: 5 * time.Second}, Handler: func(_ context.Context, job jobs.Job) error {
		if job.Attempt == 1 {
			return errors.New("no")
		}
		return nil
	}})
	servers := func() int {
		all, err := s.inspector.Servers()
		require.NoError(t, err)
		return len(all)
	}
	time.Sleep(300 * time.Millisecond)
	require.Zero(t, servers())
	enqueue(t, r, jobs.Job{})
	eventually(t, func() bool { return r.Stats().Retried == 1 && servers() == 0 }, "the server has ended")
	require.Zero(t, r.Stats().Succeeded)
	eventually(t, func() bool { return r.Stats().Succeeded == 1 }, "it runs again")
}
