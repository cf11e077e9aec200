package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/groups"
	"github.com/gresil/gresil/outbound/gate"
	"github.com/gresil/gresil/outbound/jobs"
)

// campaign returns n jobs, and counts those that were drawn.
func campaign(name string, n int, drawn *int) iter.Seq[jobs.Job] {
	return func(yield func(jobs.Job) bool) {
		for i := range n {
			if drawn != nil {
				*drawn++
			}
			if !yield(jobs.Job{ID: fmt.Sprintf("%s-%d", name, i), Queue: "q", Campaign: name, Retain: time.Hour}) {
				return
			}
		}
	}
}

// paced starts a queue whose vendor takes perSecond calls a second.
func paced(t *testing.T, perSecond int64, done func(jobs.Job)) *jobs.Runner {
	t.Helper()
	g := core.Must(gate.New(gate.Config{Limits: []gate.Limit{{N: perSecond, Per: time.Second}}}))
	r, _ := start(t, jobs.Queue{Gate: g, Concurrency: 50, Handler: func(_ context.Context, job jobs.Job) error {
		done(job)
		return nil
	}})
	return r
}

// A campaign is fed a little ahead, at any rate, and loses little of it.
func TestFeedAhead(t *testing.T) {
	t.Parallel()
	for _, rate := range []int{1, 10, 100} {
		synctest.Test(t, func(t *testing.T) {
			r := paced(t, int64(rate), func(jobs.Job) {})
			var drawn, most int
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			fed := make(chan error, 1)
			go func() {
				_, _, err := r.Feed(ctx, campaign("a", 1_000_000, &drawn))
				fed <- err
			}()
			begin := time.Now()
			for range 60 {
				time.Sleep(time.Second)
				i := inspect(t, r)
				most = max(most, i.Pending+i.Scheduled)
			}
			succeeded := r.Stats().Succeeded
			require.Greater(t, float64(succeeded), 0.93*float64(rate)*time.Since(begin).Seconds(), "Slack is 5 %")
			require.LessOrEqual(t, most, max(150, 10*rate))
			cause := errors.New("the campaign is over")
			cancel(cause)
			require.ErrorIs(t, <-fed, cause)
			n, err := r.Cancel(t.Context(), "q", "a")
			require.NoError(t, err)
			time.Sleep(time.Minute)
			require.InDelta(t, drawn, int(r.Stats().Succeeded)+n, 1)
			require.LessOrEqual(t, r.Stats().Succeeded, succeeded+51, "those that were active")
		})
	}
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
		var drawn, before [5]int
		names := []string{"first", "0", "1", "2", "3"}
		feed := func(i int) {
			group.Go(func() { _, _, _ = r.Feed(ctx, campaign(names[i], 1_000_000, &drawn[i])) })
		}
		feed(0)
		time.Sleep(time.Minute)
		for i := range 4 {
			feed(1 + i)
		}
		time.Sleep(time.Minute) // those that are ahead
		synctest.Wait()
		before = drawn
		mu.Lock()
		clear(done)
		mu.Unlock()
		time.Sleep(2 * time.Minute)
		cancel()
		group.Wait()
		mu.Lock()
		defer mu.Unlock()
		for i, name := range names {
			require.InDelta(t, drawn[0]-before[0], drawn[i]-before[i], 15, "fed: %v to %v, but for the turns of a look", before, drawn)
			require.InDelta(t, 0.95*2*60*5/5, done[name], 30, "%v: those that are ahead are in no order", done)
		}
	})
}

// A campaign over two queues uses both fully.
func TestFeedOfTwoQueues(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := jobs.Queue{Concurrency: 10, Handler: func(context.Context, jobs.Job) error { time.Sleep(10 * time.Millisecond); return nil }}
		r, _ := start(t, q, func(c *jobs.Config) { c.Queues["other"] = q })
		const n = 2000
		begin := time.Now()
		_, _, err := r.Feed(t.Context(), func(yield func(jobs.Job) bool) {
			for i := range n {
				if !yield(jobs.Job{Queue: []string{"q", "other"}[i%2]}) {
					return
				}
			}
		})
		require.NoError(t, err)
		for r.Stats().Succeeded < n {
			time.Sleep(10 * time.Millisecond)
		}
		require.Less(t, time.Since(begin), 1500*time.Millisecond, "it is 1 s at the full rate")
	})
}

func TestFeedOfTheFuture(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var at []time.Duration
		r, _ := start(t, jobs.Queue{Handler: func(context.Context, jobs.Job) error {
			at = append(at, time.Since(begin))
			return nil
		}})
		go func() {
			n, _, err := r.Feed(t.Context(), func(yield func(jobs.Job) bool) {
				_ = yield(jobs.Job{Queue: "q", NotBefore: begin.Add(time.Hour)}) && yield(jobs.Job{Queue: "q", NotBefore: begin.Add(2 * time.Hour)})
			})
			require.NoError(t, err)
			require.Equal(t, 2, n)
		}()
		time.Sleep(time.Hour - 61*time.Second)
		require.Zero(t, inspect(t, r).Scheduled)
		time.Sleep(2 * time.Second)
		require.Equal(t, 1, inspect(t, r).Scheduled)
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		require.Equal(t, []time.Duration{time.Hour, 2 * time.Hour}, at)
	})
}

// A campaign that is fed again from its beginning makes no call twice, but those that have failed.
func TestFeedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		calls := map[string]int{}
		r, _ := start(t, jobs.Queue{Concurrency: 1, Handler: func(_ context.Context, job jobs.Job) error {
			if calls[job.ID]++; calls[job.ID] == 1 && job.ID == "a-7" {
				return core.Permanent(errors.New("no"))
			}
			return nil
		}})
		ctx, cancel := context.WithCancel(t.Context())
		n, skipped, err := r.Feed(ctx, func(yield func(jobs.Job) bool) {
			for job := range campaign("a", 1000, nil) {
				if job.ID == "a-200" {
					cancel()
				}
				if !yield(job) {
					return
				}
			}
		})
		require.Equal(t, []any{200, 0, context.Canceled}, []any{n, skipped, err})
		synctest.Wait()
		n, skipped, err = r.Feed(t.Context(), campaign("a", 1000, nil))
		require.Equal(t, []any{801, 199, nil}, []any{n, skipped, err})
		synctest.Wait()
		require.Len(t, calls, 1000)
		require.Equal(t, jobs.Stats{Enqueued: 1001, Skipped: 199, Succeeded: 1000, Failed: 1}, r.Stats())
		bad := jobs.Job{Queue: "{"}
		_, _, err = r.Feed(t.Context(), func(yield func(jobs.Job) bool) { _ = yield(jobs.Job{Queue: "q"}) && yield(bad) })
		require.ErrorIs(t, err, core.ErrConfig)
		require.EqualValues(t, 1002, r.Stats().Enqueued)
		go func() {
			time.Sleep(time.Minute)
			_ = r.Close(context.Background())
		}()
		_, _, err = r.Feed(t.Context(), func(yield func(jobs.Job) bool) { _ = yield(jobs.Job{Queue: "q", NotBefore: time.Now().Add(time.Hour)}) })
		require.ErrorIs(t, err, jobs.ErrClosed)
	})
}

// Feed waits while the engine fails, or is full. A reply that is lost makes no second job, which counts as fed.
func TestFeedWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFault()
		m, begin, n := f.Queue, time.Now(), 0
		f.enqueue = func(ctx context.Context, j groups.Job, most int) error {
			err := m.Enqueue(ctx, j, most)
			if n++; n%2 == 1 { // its reply is lost
				err = errors.Join(errors.New("no connection"), err)
			}
			return err
		}
		f.inspect = func(ctx context.Context, queues ...string) ([]groups.Counts, error) {
			if time.Since(begin) < time.Minute {
				return nil, errors.New("no connection")
			}
			return m.Inspect(ctx, queues...)
		}
		r, _ := start(t, jobs.Queue{Concurrency: 1, Handler: func(context.Context, jobs.Job) error {
			time.Sleep(time.Second)
			return nil
		}}, f.engine, func(c *jobs.Config) { c.MaxPending = 3 })
		fed, skipped, err := r.Feed(t.Context(), func(yield func(jobs.Job) bool) {
			for i := range 20 {
				job := jobs.Job{Queue: "q"}
				if i%2 == 0 {
					job.ID = fmt.Sprint(i)
				}
				if !yield(job) {
					return
				}
			}
		})
		require.Equal(t, []any{20, 0, nil}, []any{fed, skipped, err})
		require.Greater(t, time.Since(begin), time.Minute+15*time.Second)
		time.Sleep(time.Minute)
		require.EqualValues(t, 20, r.Stats().Succeeded)
	})
}

// During an outage the jobs that wait for their retries count as ahead.
func TestFeedDuringOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, _ := start(t, jobs.Queue{Handler: func(context.Context, jobs.Job) error { return errors.New("503") }})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		fed, _, _ := r.Feed(ctx, campaign("a", 1_000_000, nil))
		require.Less(t, fed, 2000, "and not as fast as they fail")
	})
}

// Cancel looks again, as a list leaves out jobs that change their state meanwhile.
func TestCancel(t *testing.T) {
	t.Parallel()
	r, err := jobs.New(jobs.Config{})
	require.NoError(t, err)
	for i := range 30 {
		enqueue(t, r, jobs.Job{Campaign: fmt.Sprint(i % 3), NotBefore: time.Now().Add(time.Duration(i%2) * time.Hour)})
	}
	n, err := r.Cancel(t.Context(), "q", "1")
	require.NoError(t, err)
	require.Equal(t, 10, n)
	i := inspect(t, r)
	require.Equal(t, []int{10, 10}, []int{i.Pending, i.Scheduled})
}

// Cancel deletes failed jobs too.
func TestCancelOfFailed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, _ := start(t, jobs.Queue{Handler: func(context.Context, jobs.Job) error { return errors.New("no") }})
		for i := range 6 {
			enqueue(t, r, jobs.Job{Campaign: fmt.Sprint(i % 2), MaxAttempts: 1})
		}
		time.Sleep(time.Second)
		require.Equal(t, 6, inspect(t, r).Failed)
		n, err := r.Cancel(t.Context(), "q", "1")
		require.NoError(t, err)
		require.Equal(t, []int{3, 3}, []int{n, inspect(t, r).Failed})
	})
}

func TestJobsOfUnknownState(t *testing.T) {
	t.Parallel()
	r, err := jobs.New(jobs.Config{})
	require.NoError(t, err)
	enqueue(t, r, jobs.Job{})
	for job, err := range r.Jobs(t.Context(), "q", "none") {
		t.Errorf("got %+v, %v, want none", job, err)
	}
}
