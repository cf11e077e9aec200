//go:build soak

package asynqjobs_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/internal/groups"
	"github.com/gresil/gresil/outbound/jobs"
	"github.com/gresil/gresil/outbound/jobs/asynqjobs"
)

// The lease of asynq is 30 seconds, and the margin 25.
func TestSoakKilledWorker(t *testing.T) {
	t.Parallel()
	took := survive(t, false)
	t.Logf("redelivered %v after the kill", took)
	require.Greater(t, took, 50*time.Second)
	require.Less(t, took, 100*time.Second)
}

func TestSoakNeverEarlyNorBlunt(t *testing.T) {
	t.Parallel()
	for _, wait := range []time.Duration{1500 * time.Millisecond, 2300 * time.Millisecond} {
		t.Run(wait.String(), func(t *testing.T) {
			t.Parallel()
			earliest, latest := runAtTimes(t, start(t, asynqjobs.Config{}), wait, 2, 100)
			t.Logf("200 times: %v to %v after the time", earliest, latest)
			require.GreaterOrEqual(t, earliest, time.Duration(0))
			require.Less(t, latest, 2500*time.Millisecond)
		})
	}
}

func TestSoakOutage(t *testing.T) {
	t.Parallel()
	outage(t, 100_000)
}

// 50 kills lose no record, fail none, and cost two more calls each at most.
func TestSoakBatchOverProcesses(t *testing.T) {
	t.Parallel()
	require.LessOrEqual(t, batchOverProcesses(t, 3000, 0, 50, 50, 5), 300+2*50)
}

// A job that ends its process takes nothing with it, by the leases of asynq as they are: four processes are started again whenever one
// has ended, and only the job that ends them fails.
func TestSoakPoison(t *testing.T) {
	t.Parallel()
	const n = 1000
	s := start(t, asynqjobs.Config{})
	producer, err := jobs.New(jobs.Config{Engine: s.engine})
	require.NoError(t, err)
	for i := range n {
		job := jobs.Job{ID: fmt.Sprint(i), MaxAttempts: 1, Retain: time.Hour}
		if i == n/2 {
			job.ID = poison
		}
		enqueue(t, producer, job)
	}
	began := time.Now()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var processes sync.WaitGroup
	var ends atomic.Int64
	for range 4 {
		processes.Go(func() {
			for ctx.Err() == nil {
				if err := process(ctx, s.server.Addr+" ten").Run(); ctx.Err() == nil {
					t.Logf("a process ended after %v: %v", time.Since(began), err)
					ends.Add(1)
				}
			}
		})
	}
	require.Eventually(t, func() bool { return s.counts(t).Done+s.counts(t).Failed == n }, 20*time.Minute, time.Second)
	t.Logf("all are over after %v and %d ends of processes", time.Since(began), ends.Load())
	cancel()
	processes.Wait()
	require.EqualValues(t, 5, ends.Load(), "MaxDeliveries")
	require.Equal(t, []int{n - 1, 1}, []int{s.counts(t).Done, s.counts(t).Failed})
	for info, err := range producer.Jobs(t.Context(), "q", jobs.Failed) {
		require.NoError(t, err)
		require.Equal(t, poison, info.ID)
	}
}

// A job that would run alone does not keep others waiting for ever behind one that does not end.
func TestSoakSuspectBesideEndless(t *testing.T) {
	t.Parallel()
	s := start(t, asynqjobs.Config{})
	end := make(chan struct{})
	r, stop := s.run(t, jobs.Queue{Concurrency: 10, Timeout: -1, Handler: func(_ context.Context, job jobs.Job) error {
		if job.ID == "endless" {
			<-end
		}
		return nil
	}})
	enqueue(t, r, jobs.Job{ID: "endless"})
	eventually(t, func() bool { return s.counts(t).Active == 1 }, "it runs")
	require.NoError(t, s.Enqueue(t.Context(), groups.Job{ID: "suspect", Queue: "q", MaxAttempts: 25, Meta: map[string]string{groups.Suspect: "2"}}, 10))
	eventually(t, func() bool { return s.counts(t).Active == 2 }, "it waits")
	enqueue(t, r, jobs.Job{ID: "other"})
	require.Eventually(t, func() bool { return r.Stats().Succeeded == 2 }, 2*time.Minute, 100*time.Millisecond)
	close(end)
	stop()
}
