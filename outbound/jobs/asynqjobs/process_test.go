package asynqjobs_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
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

// poison is the ID of a job that ends the process of its handler.
const poison = "poison"

// processMain takes jobs and prints the ID of each. With "done" after the address, it ends them, otherwise
// never.
func processMain(text string) error {
	addr, done, _ := strings.Cut(text, " ")
	client := redis.NewClient(&redis.Options{Addr: addr})
	engine, err := asynqjobs.New(client, asynqjobs.Config{})
	if err != nil {
		return err
	}
	r, err := jobs.New(jobs.Config{Engine: engine, Queues: map[string]jobs.Queue{"q": {Concurrency: 5, Handler: func(_ context.Context, job jobs.Job) error {
		fmt.Println(job.ID)
		switch {
		case job.ID == poison:
			time.Sleep(20 * time.Millisecond) // others have begun meanwhile
			os.Exit(137)
		case done == "":
			select {}
		}
		time.Sleep(50 * time.Millisecond) // so that they are active when the process ends
		return nil
	}}}})
	if err != nil {
		return err
	}
	return r.Run(context.Background())
}

// restart runs one worker after the other, each with five jobs at a time, until the queue has no more jobs to
// run. The jobs of one that has ended are due at once. It kills the first ones when they have begun a job
// each; the others end by themselves or at the end.
func restart(t *testing.T, s setup, kills int) (deaths int) {
	t.Helper()
	for range 12 + kills {
		cmd := redistest.Process(t.Context(), processVar, s.server.Addr+" done")
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		ended, over := make(chan error, 1), false
		go func() {
			lines := bufio.NewScanner(out)
			for first := true; lines.Scan(); first = false {
				if first && deaths < kills {
					_ = cmd.Process.Kill()
				}
			}
			ended <- cmd.Wait()
		}()
		for alive := true; alive; {
			select {
			case err := <-ended:
				require.Error(t, err)
				alive = false
			case <-time.After(10 * time.Millisecond):
				for _, id := range s.client.ZRange(t.Context(), "asynq:{q}:retry", 0, -1).Val() { // they wait for a second
					require.NoError(t, s.client.ZAddXX(t.Context(), "asynq:{q}:retry", redis.Z{Member: id}).Err())
				}
				info, err := s.Inspect(t.Context(), "q")
				require.NoError(t, err)
				if over = info.Pending+info.Scheduled+info.Active == 0; over {
					_ = cmd.Process.Kill()
				}
			}
		}
		if over {
			return deaths
		}
		deaths++
		s.expire(t)
	}
	info, err := s.Inspect(t.Context(), "q")
	require.NoError(t, err)
	t.Fatalf("after %d ends: %+v", deaths, info)
	return 0
}

// A job that ends its process fails after MaxAttempts of them. Jobs beside it are done, and none fails after
// kills of other reasons.
func TestPoisonJob(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		poison      bool
		maxAttempts int
		kills       int
		deaths      int
	}{
		"poison":               {true, 5, 0, 5},
		"poison, one attempt":  {true, 1, 0, 3},
		"kills":                {false, 5, 5, 5},
		"kills, one attempt":   {false, 1, 2, 2},
		"poison and two kills": {true, 5, 2, 7},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, asynqjobs.Config{Poll: 5 * time.Millisecond})
			producer, err := jobs.New(jobs.Config{Engine: s.Engine})
			require.NoError(t, err)
			var failures []string
			for i := range 30 {
				job := jobs.Job{ID: fmt.Sprint(i), MaxAttempts: c.maxAttempts}
				if c.poison && i == 3 {
					job.ID = poison
					failures = append(failures, job.ID)
				}
				enqueue(t, producer, job)
			}
			require.LessOrEqual(t, restart(t, s, c.kills), c.deaths)
			info, err := s.Inspect(t.Context(), "q")
			require.NoError(t, err)
			require.Equal(t, len(failures), info.Failed)
			require.EqualValues(t, 30, info.Processed)
			for info, err := range s.List(t.Context(), "q", jobs.Failed) {
				require.NoError(t, err)
				require.Contains(t, failures, info.ID)
				require.Contains(t, info.LastError, "processes ended, or lost the engine, during the attempt")
				require.NoError(t, s.RunNow(t.Context(), "q", info.ID))
			}
			s.run(t, jobs.Queue{Handler: func(context.Context, jobs.Job) error { return nil }})
			eventually(t, func() bool {
				info, err := s.Inspect(t.Context(), "q")
				return err == nil && info.Processed == uint64(30+len(failures))
			}, "it runs again by hand")
		})
	}
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
