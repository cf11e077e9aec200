package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/outbound/jobs"
	"github.com/gresil/gresil/outbound/pace"
)

// campaign returns n jobs, and counts those that were drawn.
func campaign(name string, n int, drawn *int) iter.Seq[jobs.Job] {
	return func(yield func(jobs.Job) bool) {
		for i := range n {
			if drawn != nil {
				*drawn++
			}
			if !yield(jobs.Job{ID: fmt.Sprintf("%s-%d", name, i), Queue: "q", Campaign: name}) {
				return
			}
		}
	}
}

// paced starts a queue whose vendor takes perSecond calls a second.
func paced(t *testing.T, perSecond int64, done func(jobs.Job)) *jobs.Runner {
	t.Helper()
	pacer, err := pace.New(pace.Config{Rates: []pace.Rate{{Calls: perSecond, Per: time.Second}}})
	require.NoError(t, err)
	r, _ := start(t, jobs.Queue{Concurrency: 50, Handler: func(ctx context.Context, job jobs.Job) error {
		if _, err := pacer.Wait(ctx, "", 1); err != nil {
			return err
		}
		done(job)
		return nil
	}})
	return r
}

// A campaign of 100,000 jobs at 10 a second never has more than about a minute's worth in its queue, and
// loses little of the rate at its beginning.
func TestACampaignIsFedAMinuteAhead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := paced(t, 10, func(jobs.Job) {})
		var drawn, most int
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		ended := make(chan error, 1)
		go func() {
			_, _, err := r.Feed(ctx, campaign("a", 100_000, &drawn))
			ended <- err
		}()
		synctest.Wait()
		begin := time.Now()
		for range 300 {
			time.Sleep(time.Second)
			most = max(most, inspect(t, r).Soon)
		}
		succeeded := r.Stats().Succeeded
		require.Greater(t, float64(succeeded), 0.93*10*time.Since(begin).Seconds(), "Slack is 5 %")
		require.Less(t, most, 1000, "about 60 seconds of 10 jobs")
		require.Greater(t, most, 400)

		cause := errors.New("the campaign is over")
		cancel(cause)
		require.ErrorIs(t, <-ended, cause)
		require.InDelta(t, float64(succeeded)+float64(most), float64(drawn), 500)
		n, err := r.Cancel(t.Context(), "q", "a")
		require.NoError(t, err)
		require.Greater(t, n, 400)
		time.Sleep(time.Minute)
		require.LessOrEqual(t, r.Stats().Succeeded, succeeded+60, "those that were active")
		require.Zero(t, inspect(t, r).Pending)
	})
}

// A campaign that begins later gets its share after what is ahead, not after the whole of the first.
func TestCampaignsTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		done := map[string]int{}
		r := paced(t, 5, func(job jobs.Job) {
			mu.Lock()
			defer mu.Unlock()
			done[job.Campaign]++
		})
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		feed := func(name string) {
			group.Go(func() { _, _, _ = r.Feed(ctx, campaign(name, 1_000_000, nil)) })
		}
		feed("first")
		time.Sleep(5 * time.Minute)
		for i := range 4 {
			feed(fmt.Sprint(i))
		}
		time.Sleep(3 * time.Minute) // those that are ahead
		mu.Lock()
		clear(done)
		mu.Unlock()
		time.Sleep(5 * time.Minute)
		cancel()
		group.Wait()
		mu.Lock()
		got := maps.Clone(done)
		mu.Unlock()
		for _, name := range []string{"first", "0", "1", "2", "3"} {
			require.InDelta(t, 0.95*5*60*5/5, got[name], 60, "%s: %v", name, got)
		}
	})
}

func TestAJobOfTheFutureIsFedAtItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var at []time.Duration
		r, _ := start(t, jobs.Queue{Handler: func(context.Context, jobs.Job) error {
			at = append(at, time.Since(begin))
			return nil
		}}, func(c *jobs.Config) { c.LookAhead = 10 * time.Second })
		go func() {
			n, _, err := r.Feed(t.Context(), func(yield func(jobs.Job) bool) {
				_ = yield(jobs.Job{Queue: "q", NotBefore: begin.Add(time.Hour)}) && yield(jobs.Job{Queue: "q", NotBefore: begin.Add(2 * time.Hour)})
			})
			require.NoError(t, err)
			require.Equal(t, 2, n)
		}()
		time.Sleep(time.Hour - 11*time.Second)
		require.Zero(t, inspect(t, r).Scheduled)
		time.Sleep(2 * time.Second)
		require.Equal(t, 1, inspect(t, r).Scheduled)
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		require.Equal(t, []time.Duration{time.Hour, 2 * time.Hour}, at)
	})
}

// A campaign that is fed again after a restart makes no call twice.
func TestACampaignIsFedAgainAfterARestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		calls := map[string]int{}
		r, _ := start(t, jobs.Queue{Concurrency: 1, Handler: func(_ context.Context, job jobs.Job) error {
			calls[job.ID]++
			time.Sleep(time.Millisecond)
			return nil
		}})
		retained := func(yield func(jobs.Job) bool) {
			for job := range campaign("a", 1000, nil) {
				job.Retain = time.Hour
				if !yield(job) {
					return
				}
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		n, _, err := r.Feed(ctx, func(yield func(jobs.Job) bool) {
			for job := range retained {
				if job.ID == "a-200" {
					cancel()
				}
				if !yield(job) {
					return
				}
			}
		})
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, 200, n)
		n, skipped, err := r.Feed(t.Context(), retained)
		require.NoError(t, err)
		require.Equal(t, 800, n)
		require.Equal(t, 200, skipped)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Len(t, calls, 1000)
		require.EqualValues(t, 1000, r.Stats().Succeeded)
		require.Positive(t, r.Stats().Duplicates)
	})
}

// A job that has failed frees its ID: fed again, it runs again. One that waits is skipped, and told apart.
func TestFeedAfterFailures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var works atomic.Bool
		var calls atomic.Int64
		r, stop := start(t, jobs.Queue{Handler: func(context.Context, jobs.Job) error {
			calls.Add(1)
			if works.Load() {
				return nil
			}
			return jobs.Permanent(errors.New("no such number"))
		}})
		feed := func(fed, skipped int) {
			t.Helper()
			n, others, err := r.Feed(t.Context(), campaign("a", 3, nil))
			require.NoError(t, err)
			require.Equal(t, []int{fed, skipped}, []int{n, others})
		}
		feed(3, 0)
		time.Sleep(time.Second)
		require.Equal(t, 3, inspect(t, r).Failed)
		works.Store(true)
		feed(3, 0)
		time.Sleep(time.Second)
		require.EqualValues(t, 6, calls.Load())
		require.Zero(t, inspect(t, r).Failed)
		stop()
		feed(3, 0)
		feed(0, 3)
		require.EqualValues(t, 3, r.Stats().Duplicates)
	})
}

// flaky is an engine whose operations fail while down is set.
type flaky struct {
	*jobs.Memory
	mu   sync.Mutex
	down bool
}

func (f *flaky) err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.down {
		return errors.New("no connection")
	}
	return nil
}

func (f *flaky) set(down bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.down = down
}

func (f *flaky) Enqueue(ctx context.Context, job jobs.Job) error {
	if err := f.err(); err != nil {
		return err
	}
	return f.Memory.Enqueue(ctx, job)
}

func (f *flaky) Inspect(ctx context.Context, queue string) (jobs.QueueInfo, error) {
	if err := f.err(); err != nil {
		return jobs.QueueInfo{}, err
	}
	return f.Memory.Inspect(ctx, queue)
}

func TestFeedWaitsWhileTheEngineFailsOrIsFull(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		engine := &flaky{Memory: jobs.NewMemory(20)}
		engine.set(true)
		var failures int
		r, err := jobs.New(jobs.Config{Engine: engine, Hooks: jobs.Hooks{EngineFailed: func(context.Context, jobs.Event) { failures++ }}})
		require.NoError(t, err)
		_, err = r.Enqueue(t.Context(), jobs.Job{Queue: "q"})
		require.EqualError(t, err, "no connection")
		ended := make(chan int, 1)
		go func() {
			n, _, err := r.Feed(t.Context(), campaign("a", 30, nil))
			require.NoError(t, err)
			ended <- n
		}()
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Positive(t, failures)
		require.Zero(t, r.Stats().Enqueued)
		engine.set(false)
		time.Sleep(time.Minute)
		require.EqualValues(t, 20, r.Stats().Enqueued, "the engine is full")
		require.Equal(t, 1, r.Stats().Feeding)
		_, err = r.Enqueue(t.Context(), jobs.Job{Queue: "q"})
		require.ErrorIs(t, err, jobs.ErrFull)
		require.ErrorIs(t, err, core.ErrRejected)
		for i := range 10 {
			require.NoError(t, engine.Delete(t.Context(), "q", fmt.Sprintf("a-%d", i)))
		}
		require.Equal(t, 30, <-ended)
		require.Zero(t, r.Stats().Feeding)
	})
}

func TestFeedEndsWithAJobThatIsNotValid(t *testing.T) {
	t.Parallel()
	r, err := jobs.New(jobs.Config{})
	require.NoError(t, err)
	n, _, err := r.Feed(t.Context(), func(yield func(jobs.Job) bool) {
		_ = yield(jobs.Job{Queue: "q"}) && yield(jobs.Job{}) && yield(jobs.Job{Queue: "q"})
	})
	require.Equal(t, 1, n)
	require.ErrorIs(t, err, core.ErrConfig)
	require.NoError(t, r.Close())
	_, _, err = r.Feed(t.Context(), campaign("a", 1, nil))
	require.ErrorIs(t, err, jobs.ErrClosed)
}
