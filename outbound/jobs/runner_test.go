package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/core/timeout"
	"github.com/gresil/gresil/outbound/gate"
	"github.com/gresil/gresil/outbound/jobs"
	"github.com/gresil/gresil/outbound/pace"
)

// start runs the queue "q" in the bubble of the test, until the test ends or stop is called.
func start(t *testing.T, q jobs.Queue, change ...func(*jobs.Config)) (r *jobs.Runner, stop func()) {
	t.Helper()
	cfg := jobs.Config{Queues: map[string]jobs.Queue{"q": q}, Registry: &core.Registry{}}
	for _, f := range change {
		f(&cfg)
	}
	r, err := jobs.New(cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			cancel()
			require.NoError(t, <-ended)
		}
	}
	t.Cleanup(stop)
	return r, stop
}

func enqueue(t *testing.T, r *jobs.Runner, job jobs.Job) string {
	t.Helper()
	if job.Queue == "" {
		job.Queue = "q"
	}
	id, err := r.Enqueue(context.Background(), job)
	require.NoError(t, err)
	return id
}

func inspect(t *testing.T, r *jobs.Runner) jobs.QueueInfo {
	t.Helper()
	info, err := r.Engine().Inspect(context.Background(), "q")
	require.NoError(t, err)
	return info
}

func TestAJobRunsAtItsExactTimes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var at []time.Duration
		r, _ := start(t, jobs.Queue{Handler: func(_ context.Context, job jobs.Job) error {
			at = append(at, time.Since(begin))
			require.Equal(t, 1, job.Attempt)
			if len(at) <= 200 {
				return fmt.Errorf("not yet: %w", jobs.RunAt(time.Now().Add(1500*time.Millisecond+time.Nanosecond)))
			}
			return nil
		}})
		enqueue(t, r, jobs.Job{NotBefore: begin.Add(777 * time.Microsecond), MaxAttempts: 1})
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Len(t, at, 201)
		for i, d := range at {
			require.Equal(t, 777*time.Microsecond+time.Duration(i)*(1500*time.Millisecond+1), d)
		}
		require.Equal(t, jobs.Stats{Enqueued: 1, Succeeded: 1, Limited: 200}, r.Stats())
	})
}

// A limited job with MaxAttempts 5 succeeds after 50 rejections, each at its slot.
func TestARejectedJobRunsAtItsSlotAndUsesNoAttempt(t *testing.T) {
	t.Parallel()
	rejections := map[string]func() error{
		"pace": func() error { return &pace.LimitedError{At: time.Now().Add(90 * time.Second)} },
		"wrapped pace": func() error {
			return fmt.Errorf("call: %w", errors.Join(errors.New("no"), &pace.LimitedError{At: time.Now().Add(90 * time.Second)}))
		},
		"own": func() error { return &rejection{90 * time.Second} },
	}
	for name, rejected := range rejections {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var last time.Time
				n := 0
				r, _ := start(t, jobs.Queue{Handler: func(_ context.Context, job jobs.Job) error {
					require.Equal(t, 1, job.Attempt)
					if n > 0 {
						require.Equal(t, 90*time.Second, time.Since(last))
					}
					last = time.Now()
					if n++; n <= 50 {
						return rejected()
					}
					return nil
				}})
				enqueue(t, r, jobs.Job{MaxAttempts: 5})
				time.Sleep(4 * time.Hour)
				synctest.Wait()
				require.Equal(t, 51, n)
				require.EqualValues(t, 1, r.Stats().Succeeded)
				require.Zero(t, r.Stats().Retried)
			})
		})
	}
}

type rejection struct{ after time.Duration }

func (r *rejection) Error() string             { return "rejected" }
func (r *rejection) Is(target error) bool      { return target == core.ErrRejected }
func (r *rejection) RetryAfter() time.Duration { return r.after }

// The errors of a pacer and of a gate are understood as they are.
func TestAPacerAndAGateRescheduleTheirJobs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pacer, err := pace.New(pace.Config{Rates: []pace.Rate{{Calls: 1, Per: 10 * time.Second}}, MaxWait: time.Second})
		require.NoError(t, err)
		defer func() { _ = pacer.Close() }()
		refused := errors.New("429") // a call that was made: it matches no rejection
		g, err := gate.New(gate.Config{MaxAttempts: 1, Classify: func(_ *http.Response, err error) gate.Signal {
			return gate.Signal{Limited: errors.Is(err, refused), Pause: 30 * time.Second}
		}})
		require.NoError(t, err)
		defer func() { _ = g.Close(context.Background()) }()
		var calls int
		begin := time.Now()
		r, _ := start(t, jobs.Queue{Concurrency: 4, Handler: func(ctx context.Context, job jobs.Job) error {
			require.Equal(t, 1, job.Attempt)
			if job.Kind == "gate" {
				return g.Do(ctx, gate.Call{}, func(context.Context) error {
					if time.Since(begin) < 20*time.Second {
						return refused
					}
					return nil
				})
			}
			_, err := pacer.Wait(ctx, "", 1)
			if err == nil {
				calls++
			}
			return err
		}})
		for range 10 {
			enqueue(t, r, jobs.Job{Kind: "pace", MaxAttempts: 1})
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		require.Equal(t, 10, calls)
		require.EqualValues(t, 10, r.Stats().Succeeded)
		require.Positive(t, r.Stats().Limited)
		require.Positive(t, r.Stats().Holds)
		begin = time.Now()
		enqueue(t, r, jobs.Job{Kind: "gate", MaxAttempts: 1})
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		require.EqualValues(t, 11, r.Stats().Succeeded)
		require.Zero(t, r.Stats().Retried+r.Stats().Failed)
	})
}

func TestAFailedJobIsRetriedAfterItsBackoffAndThenKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var at []time.Duration
		r, _ := start(t, jobs.Queue{Backoff: backoff.Exponential{Delay: time.Second, Jitter: -1}, Handler: func(context.Context, jobs.Job) error {
			at = append(at, time.Since(begin))
			return errors.New("no route")
		}})
		id := enqueue(t, r, jobs.Job{MaxAttempts: 4})
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Equal(t, []time.Duration{0, time.Second, 3 * time.Second, 7 * time.Second}, at)
		for info, err := range r.Engine().List(t.Context(), "q", jobs.Failed) {
			require.NoError(t, err)
			require.Equal(t, id, info.ID)
			require.Equal(t, "no route", info.LastError)
		}
		require.Equal(t, 1, inspect(t, r).Failed)
		require.Equal(t, jobs.Stats{Enqueued: 1, Retried: 3, Failed: 1}, r.Stats())
		require.NoError(t, r.Engine().RunNow(t.Context(), "q", id))
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Len(t, at, 5)
	})
}

func TestMaxAttempts(t *testing.T) {
	t.Parallel()
	for set, want := range map[int]int{0: 5, 1: 1, 2: 2, -1: 1000} {
		synctest.Test(t, func(t *testing.T) {
			n := 0
			r, _ := start(t, jobs.Queue{Backoff: backoff.Constant{}, Handler: func(context.Context, jobs.Job) error {
				if n++; n == 1000 {
					return nil
				}
				return errors.New("no")
			}})
			enqueue(t, r, jobs.Job{MaxAttempts: set})
			time.Sleep(time.Minute)
			synctest.Wait()
			require.Equal(t, want, n, "MaxAttempts %d", set)
		})
	}
}

func TestAPermanentErrorIsKeptAtOnce(t *testing.T) {
	t.Parallel()
	cause := errors.New("no such number")
	require.NoError(t, core.Permanent(nil))
	require.ErrorIs(t, core.Permanent(cause), cause)
	require.EqualError(t, core.Permanent(cause), "no such number")
	for _, err := range []error{core.Permanent(cause), core.Permanent(&rejection{time.Second})} {
		synctest.Test(t, func(t *testing.T) {
			r, _ := start(t, jobs.Queue{Handler: func(context.Context, jobs.Job) error { return fmt.Errorf("call: %w", err) }})
			enqueue(t, r, jobs.Job{})
			synctest.Wait()
			require.Equal(t, jobs.Stats{Enqueued: 1, Failed: 1}, r.Stats())
		})
	}
}

// A mechanism that is closed rejects with a negative RetryAfter, but the job has not failed.
func TestAClosedMechanismFailsNoJob(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, _ := start(t, jobs.Queue{Handler: func(_ context.Context, job jobs.Job) error {
			if job.Kind == "full" {
				return pace.ErrFull
			}
			return pace.ErrClosed
		}})
		enqueue(t, r, jobs.Job{MaxAttempts: 1, Kind: "closed"})
		enqueue(t, r, jobs.Job{MaxAttempts: 1, Kind: "full"})
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		s := r.Stats()
		require.Zero(t, s.Failed+s.Retried)
		require.Greater(t, s.Limited, uint64(80))
		require.Less(t, s.Limited, uint64(400))
	})
}

func TestAPanicAndAnEndedGoroutineAreFailedAttempts(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"panic", "goexit"} {
		synctest.Test(t, func(t *testing.T) {
			var failure error
			n := 0
			r, _ := start(t, jobs.Queue{Concurrency: 1, Backoff: backoff.Constant{}, Handler: func(context.Context, jobs.Job) error {
				if n++; n == 3 {
					return nil
				}
				if kind == "panic" {
					panic("out of numbers")
				}
				runtime.Goexit()
				return nil
			}})
			r.Observe(jobs.Hooks{
				Retried:   func(_ context.Context, e jobs.Event) { failure = e.Err; panic("a hook") },
				Succeeded: func(context.Context, jobs.Event) { panic("a hook") },
			})
			enqueue(t, r, jobs.Job{})
			synctest.Wait()
			require.Equal(t, jobs.Stats{Enqueued: 1, Retried: 2, Succeeded: 1, HookPanics: 3}, r.Stats())
			if p, ok := errors.AsType[*jobs.PanicError](failure); kind == "panic" {
				require.True(t, ok)
				require.Equal(t, "out of numbers", p.Value)
				require.Contains(t, string(p.Stack), "runner_test.go")
			} else {
				require.ErrorContains(t, failure, "ended its goroutine")
			}
		})
	}
}

func TestTheContextOfAnAttemptEndsAtItsTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var cause error
		r, _ := start(t, jobs.Queue{Timeout: time.Minute, Handler: func(ctx context.Context, _ jobs.Job) error {
			<-ctx.Done()
			cause = context.Cause(ctx)
			return ctx.Err()
		}})
		enqueue(t, r, jobs.Job{MaxAttempts: 1})
		time.Sleep(time.Minute)
		synctest.Wait()
		require.ErrorIs(t, cause, timeout.ErrTimeout)
		require.EqualValues(t, 1, r.Stats().Failed, "it is a failed attempt")
	})
}

func TestAStoppedJobGoesBackWithoutAnAttempt(t *testing.T) {
	t.Parallel()
	for _, grace := range []time.Duration{0, -1, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			var stopped time.Duration
			begin := time.Now()
			engine := jobs.NewMemory(0)
			with := func(c *jobs.Config) { c.Engine, c.Grace = engine, grace }
			r, stop := start(t, jobs.Queue{Concurrency: 2, Handler: func(ctx context.Context, job jobs.Job) error {
				if job.Kind == "quick" {
					time.Sleep(5 * time.Second)
					return nil
				}
				<-ctx.Done()
				stopped = time.Since(begin)
				return errors.New("the connection was cut") // does not match context.Canceled
			}}, with)
			enqueue(t, r, jobs.Job{MaxAttempts: 1})
			enqueue(t, r, jobs.Job{Kind: "quick"})
			synctest.Wait()
			stop()
			want := map[time.Duration]time.Duration{0: 10 * time.Second, -1: 0, time.Minute: time.Minute}[grace]
			require.Equal(t, want, stopped)
			require.Equal(t, 1, inspect(t, r).Pending)
			require.EqualValues(t, 1, r.Stats().Limited)
			require.EqualValues(t, 1, r.Stats().Succeeded, "a handler that ignores its context is waited for")

			again, _ := start(t, jobs.Queue{Handler: func(_ context.Context, job jobs.Job) error {
				require.Equal(t, 1, job.Attempt)
				return nil
			}}, with)
			synctest.Wait()
			require.EqualValues(t, 1, again.Stats().Succeeded)
		})
	}
}

// A vendor that cools down for an hour delays its own queue only, and its jobs do not run in vain.
func TestALongCooldownHoldsItsQueueAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		until := time.Now().Add(time.Hour)
		var runs, held atomic.Int64
		cooling := func(context.Context, jobs.Job) error {
			runs.Add(1)
			if time.Now().Before(until) {
				time.Sleep(time.Millisecond) // the hold begins before any second handler of a worker ends
				return &rejection{time.Until(until)}
			}
			return nil
		}
		r, _ := start(t, jobs.Queue{Handler: cooling}, func(c *jobs.Config) {
			c.Queues["other"] = jobs.Queue{Handler: func(context.Context, jobs.Job) error { return nil }}
			c.Hooks.Held = func(_ context.Context, e jobs.Event) {
				held.Add(1)
				require.Equal(t, "q", e.Queue)
				require.True(t, e.At.Equal(until))
			}
		})
		for range 1000 {
			enqueue(t, r, jobs.Job{})
			enqueue(t, r, jobs.Job{Queue: "other"})
		}
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		require.EqualValues(t, 1000, r.Stats().Succeeded, "the other queue")
		require.LessOrEqual(t, runs.Load(), int64(20), "the handlers that ran at the time")
		require.EqualValues(t, 1, held.Load())
		require.True(t, inspect(t, r).HeldUntil.Equal(until))
		time.Sleep(time.Hour)
		synctest.Wait()
		require.EqualValues(t, 2000, r.Stats().Succeeded)
	})
}

// A person resumes the queue, also one that was paused when the hold began: the vendor's next
// answer holds it, although an earlier hold would have ended later.
func TestAnAnswerAfterAResumeHolds(t *testing.T) {
	t.Parallel()
	for _, paused := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var runs atomic.Int64
			engine := jobs.NewMemory(0)
			r, _ := start(t, jobs.Queue{Concurrency: 1, Handler: func(context.Context, jobs.Job) error {
				runs.Add(1)
				time.Sleep(time.Second)
				return &rejection{time.Hour / time.Duration(runs.Load())}
			}}, func(c *jobs.Config) { c.Engine = engine })
			for range 3 {
				enqueue(t, r, jobs.Job{})
			}
			synctest.Wait()
			if paused {
				require.NoError(t, engine.Pause(t.Context(), "q"))
			}
			time.Sleep(time.Minute)
			require.NoError(t, engine.Resume(t.Context(), "q"))
			time.Sleep(time.Minute)
			require.EqualValues(t, 2, runs.Load(), "paused: %t", paused)
			require.Equal(t, 30*time.Minute-59*time.Second, time.Until(inspect(t, r).HeldUntil), "paused: %t", paused)
		})
	}
}

// A vendor that asks for years, by mistake, stops its queue for an hour at a time.
func TestAHoldLastsAnHourAtMost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, _ := start(t, jobs.Queue{Concurrency: 1, Handler: func(_ context.Context, job jobs.Job) error {
			if job.Kind == "years" {
				return &rejection{math.MaxInt64}
			}
			return nil
		}})
		enqueue(t, r, jobs.Job{Kind: "years"})
		synctest.Wait()
		enqueue(t, r, jobs.Job{})
		require.Equal(t, time.Hour, time.Until(inspect(t, r).HeldUntil))
		time.Sleep(time.Hour)
		synctest.Wait()
		require.EqualValues(t, 1, r.Stats().Succeeded)
		require.Equal(t, 1, inspect(t, r).Scheduled)
	})
}

func TestAQueueOfSeveralLimitsIsNotHeld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, _ := start(t, jobs.Queue{Hold: -1, Handler: func(_ context.Context, job jobs.Job) error {
			if job.Kind == "cooling" {
				return &rejection{time.Hour}
			}
			return nil
		}})
		enqueue(t, r, jobs.Job{Kind: "cooling"})
		synctest.Wait()
		enqueue(t, r, jobs.Job{})
		synctest.Wait()
		require.EqualValues(t, 1, r.Stats().Succeeded)
		require.Zero(t, r.Stats().Holds)
	})
}

func TestALimitedJobTakesAFreshDrawOfTheSpread(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var at []time.Time
		q := jobs.Queue{Spread: jobs.RandomSpread(time.Minute, 2*time.Minute), Handler: func(context.Context, jobs.Job) error {
			at = append(at, time.Now())
			if len(at) < 100 {
				return &rejection{time.Millisecond}
			}
			return nil
		}}
		r, _ := start(t, q)
		enqueue(t, r, jobs.Job{})
		time.Sleep(4 * time.Hour)
		synctest.Wait()
		require.Len(t, at, 100)
		draws := map[time.Duration]bool{}
		for i := range at[1:] {
			d := at[i+1].Sub(at[i])
			require.GreaterOrEqual(t, d, time.Minute)
			require.LessOrEqual(t, d, 2*time.Minute)
			draws[d] = true
		}
		require.Greater(t, len(draws), 90)
	})
}

func TestRandomSpread(t *testing.T) {
	t.Parallel()
	s := jobs.RandomSpread(60*time.Second, 120*time.Second)
	var sum time.Duration
	seconds := map[time.Duration]bool{}
	for range 10_000 {
		d := s.Next(1, 0)
		require.GreaterOrEqual(t, d, 60*time.Second)
		require.LessOrEqual(t, d, 120*time.Second)
		sum += d
		seconds[d.Truncate(time.Second)] = true
	}
	require.InDelta(t, 90, (sum / 10_000).Seconds(), 1)
	require.GreaterOrEqual(t, len(seconds), 55)
	require.NotEqual(t, s.Next(1, 0), s.Next(1, 0))
	require.Equal(t, time.Second, jobs.RandomSpread(time.Second, time.Second).Next(1, 0))
}
