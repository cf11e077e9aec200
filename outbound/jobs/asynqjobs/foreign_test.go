package asynqjobs_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/outbound/jobs"
	"github.com/gresil/gresil/outbound/jobs/asynqjobs"
)

type nilError struct{ text string }

func (e *nilError) Error() string { return e.text }

// A panic in the error of a handler is a failed attempt: it ends neither the process nor, after its lease, the next one.
func TestAPanicOfAnErrorEndsNoProcess(t *testing.T) {
	t.Parallel()
	s := start(t, asynqjobs.Config{})
	r, _ := s.run(t, jobs.Queue{Handler: func(context.Context, jobs.Job) error {
		var e *nilError
		return e
	}})
	enqueue(t, r, jobs.Job{MaxAttempts: 1})
	eventually(t, func() bool { info, err := s.Inspect(t.Context(), "q"); return err == nil && info.Failed == 1 }, "it is kept as failed")
}

// A task of another client whose deadline is over has failed, and asynq abandons it: it does not run for ever.
func TestATaskOfAnotherClientAfterItsDeadlineFails(t *testing.T) {
	t.Parallel()
	s := start(t, asynqjobs.Config{Poll: 5 * time.Millisecond, PollScheduled: 5 * time.Millisecond})
	client := asynq.NewClientFromRedisClient(s.client)
	_, err := client.Enqueue(asynq.NewTask("late", nil), asynq.Queue("q"), asynq.MaxRetry(0), asynq.Deadline(time.Now().Add(-time.Minute)))
	require.NoError(t, err)
	_, err = client.Enqueue(asynq.NewTask("late", nil), asynq.Queue("q"), asynq.MaxRetry(2), asynq.Deadline(time.Now().Add(-time.Minute)))
	require.NoError(t, err)
	s.run(t, jobs.Queue{Handler: func(context.Context, jobs.Job) error { return nil }})
	eventually(t, func() bool {
		info, err := s.Inspect(t.Context(), "q")
		return err == nil && info.Failed == 1 && info.Scheduled == 1
	}, "the first is kept as failed, the second waits")
	tasks, err := s.inspector.ListRetryTasks("q")
	require.NoError(t, err)
	require.Len(t, tasks, 1)
	require.Equal(t, 1, tasks[0].Retried)
}

// The clock of another process is ahead: it has made a job pending too early. The job waits for its time.
func TestAJobThatAnotherClockMadePendingWaits(t *testing.T) {
	t.Parallel()
	s := start(t, asynqjobs.Config{})
	var early atomic.Int64
	due := time.Now().Add(1500 * time.Millisecond)
	r, err := jobs.New(jobs.Config{Engine: s.Engine})
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
