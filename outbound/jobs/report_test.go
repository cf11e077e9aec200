package jobs_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/outbound/jobs"
)

func TestFiguresHaveTheQueuesAsRunHasReadThem(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, _ := start(t, jobs.Queue{Concurrency: 1, Handler: func(_ context.Context, job jobs.Job) error {
			if job.Kind == "slow" {
				time.Sleep(time.Minute)
			}
			return jobs.Permanent(errors.New("no"))
		}})
		enqueue(t, r, jobs.Job{})
		enqueue(t, r, jobs.Job{Kind: "slow"})
		enqueue(t, r, jobs.Job{})
		enqueue(t, r, jobs.Job{NotBefore: time.Now().Add(time.Hour)})
		time.Sleep(6 * time.Second)
		synctest.Wait()
		figures, panics := r.Figures()
		require.Zero(t, panics)
		got := map[string]float64{}
		for _, f := range figures {
			got[f.Name+" "+f.Value] = f.N
		}
		require.Equal(t, map[string]float64{
			"attempts_total succeeded": 0, "attempts_total limited": 0, "attempts_total retried": 0, "attempts_total failed": 1,
			"enqueued_total ": 4, "duplicates_total ": 0, "holds_total ": 0, "running ": 1, "feeding ": 0,
			"pending q": 1, "scheduled q": 1, "active q": 1, "kept_failed q": 1, "stuck q": 0, "paused q": 0, "held q": 0,
		}, got)
		s, err := r.Snapshot(t.Context())
		require.NoError(t, err)
		require.Equal(t, "default", s.Name)
		require.Equal(t, 1, s.Stats.Active)
		require.Len(t, s.Queues, 1)
		require.Equal(t, 6*time.Second, s.Queues[0].Latency)
	})
}

func TestStepsOfARunner(t *testing.T) {
	t.Parallel()
	for _, calls := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			n := 0
			r, _ := start(t, jobs.Queue{Handler: func(context.Context, jobs.Job) error {
				switch n++; n {
				case 1:
					return &rejection{time.Minute}
				case 2:
					return errors.New("no")
				case 3:
					return nil
				}
				return jobs.Permanent(errors.New("no"))
			}})
			var texts []string
			defer r.ObserveSteps(calls, func(_ context.Context, s core.Step) {
				require.Equal(t, "q", s.Attrs[0].Value.String())
				texts = append(texts, s.Text)
				require.Equal(t, s.Text == "job failed", s.Warn)
			})()
			enqueue(t, r, jobs.Job{})
			time.Sleep(time.Hour)
			synctest.Wait()
			enqueue(t, r, jobs.Job{})
			synctest.Wait()
			want := []string{"queue is held", "job failed"}
			if calls {
				want = []string{"queue is held", "job runs again later", "attempt failed", "job succeeded", "job failed"}
			}
			require.Equal(t, want, texts)
		})
	}
}

// TestAnOutageOfTheEngineEndsWithItsNextSuccess: each failure is a step, and the first success after
// them too, also if Run does not read the queues.
func TestAnOutageOfTheEngineEndsWithItsNextSuccess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		engine := &flaky{Memory: jobs.NewMemory(0)}
		r, err := jobs.New(jobs.Config{Engine: engine})
		require.NoError(t, err)
		var steps []core.Step
		defer r.ObserveSteps(false, func(_ context.Context, s core.Step) { steps = append(steps, s) })()
		for range 2 {
			steps = nil
			engine.set(true)
			time.AfterFunc(time.Second-time.Millisecond, func() { engine.set(false) })
			fed, skipped, err := r.Feed(t.Context(), campaign("a", 3, nil))
			require.NoError(t, err)
			require.Equal(t, 3, fed+skipped)
			require.Len(t, steps, 5, "4 failures within a second, and the end")
			for i, s := range steps {
				require.True(t, s.Outage)
				require.Equal(t, i < 4, s.Warn)
			}
			require.Equal(t, "engine has recovered", steps[4].Text)
		}
	})
}
