package asynqjobs_test

import (
	"bufio"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/internal/redistest"
	"github.com/gresil/gresil/outbound/jobs"
	"github.com/gresil/gresil/outbound/jobs/asynqjobs"
)

// processVar is the variable of the environment that makes the test binary a worker, with the address of Redis.
const processVar = "GRESIL_TEST_JOBS"

// processMain takes jobs and never ends them. It prints the ID of each.
func processMain(addr string) error {
	client := redis.NewClient(&redis.Options{Addr: addr})
	engine, err := asynqjobs.New(client, asynqjobs.Config{})
	if err != nil {
		return err
	}
	r, err := jobs.New(jobs.Config{Engine: engine, Queues: map[string]jobs.Queue{"q": {Concurrency: 5, Handler: func(_ context.Context, job jobs.Job) error {
		fmt.Println(job.ID)
		select {}
	}}}})
	if err != nil {
		return err
	}
	return r.Run(context.Background())
}

// kill starts a worker, waits until it has five jobs, and kills it. It returns their IDs.
func kill(t *testing.T, s setup) (ids []string) {
	t.Helper()
	cmd := redistest.Process(t.Context(), processVar, s.server.Addr)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	for lines := bufio.NewScanner(out); len(ids) < 5 && lines.Scan(); {
		ids = append(ids, lines.Text())
	}
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait() // it was killed
	require.Len(t, ids, 5)
	return ids
}

// survive enqueues ten jobs, kills the worker that has five of them, and waits until another worker has
// done all. The lease of the dead worker ends by itself, or is made to.
func survive(t *testing.T, expire bool) (redelivered time.Duration) {
	t.Helper()
	s := start(t, asynqjobs.Config{})
	producer, err := jobs.New(jobs.Config{Engine: s.Engine})
	require.NoError(t, err)
	for range 10 {
		enqueue(t, producer, jobs.Job{MaxAttempts: 1})
	}
	lost := kill(t, s)
	killed := time.Now()
	info, err := s.Inspect(t.Context(), "q")
	require.NoError(t, err)
	require.Equal(t, 5, info.Active)
	require.Equal(t, 5, info.Pending)
	if expire {
		s.expire(t)
	}
	done := make(chan jobs.Job, 20)
	s.run(t, jobs.Queue{Handler: func(_ context.Context, job jobs.Job) error {
		done <- job
		return nil
	}})
	ids := map[string]bool{}
	for range 10 {
		select {
		case job := <-done:
			require.Equal(t, 1, job.Attempt, "a lost worker uses no attempt")
			ids[job.ID] = true
		case <-time.After(3 * time.Minute):
			t.Fatalf("%d of 10 jobs are done", len(ids))
		}
	}
	for _, id := range lost {
		require.True(t, ids[id])
	}
	return time.Since(killed)
}

func TestTheJobsOfAKilledWorkerRunAgain(t *testing.T) {
	t.Parallel()
	survive(t, true)
}
