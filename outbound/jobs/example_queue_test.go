package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/outbound/jobs"
)

// limitedError is the answer of a vendor that is limited. The errors of outbound/pace and outbound/gate
// have the same method.
type limitedError struct{ wait time.Duration }

func (e limitedError) Error() string             { return "429 Too Many Requests" }
func (e limitedError) RetryAfter() time.Duration { return e.wait }

// A limited job runs again when the limit permits it, and uses no attempt.
func ExampleHandler() {
	n, done := 0, make(chan struct{})
	calls := core.Must(jobs.New(jobs.Config{Queues: map[string]jobs.Queue{
		"telephony": {Handler: func(_ context.Context, job jobs.Job) error {
			if n++; n < 3 {
				return limitedError{10 * time.Millisecond}
			}
			fmt.Println("call", n, "is attempt", job.Attempt)
			close(done)
			return nil
		}},
	}}))
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- calls.Run(ctx) }()
	_ = core.Must(calls.Enqueue(ctx, jobs.Job{Queue: "telephony", MaxAttempts: 1}))
	<-done
	stop()
	fmt.Println(<-ended, calls.Stats().Limited, "limited")
	// Output:
	// call 3 is attempt 1
	// <nil> 2 limited
}

// A limit that lasts longer than Hold stops the whole queue: the other jobs do not find it out one by one.
func ExampleQueue_hold() {
	held := make(chan struct{})
	calls := core.Must(jobs.New(jobs.Config{
		Queues: map[string]jobs.Queue{"telephony": {
			Concurrency: 1, Hold: time.Second,
			Handler: func(context.Context, jobs.Job) error { return limitedError{15 * time.Minute} },
		}},
		Hooks: jobs.Hooks{Held: func(context.Context, jobs.Event) { close(held) }},
	}))
	ctx, stop := context.WithCancel(context.Background())
	for range 3 {
		_ = core.Must(calls.Enqueue(ctx, jobs.Job{Queue: "telephony"}))
	}
	ended := make(chan error)
	go func() { ended <- calls.Run(ctx) }()
	<-held
	stop()
	fmt.Println(<-ended)

	engine := calls.Engine()
	info := core.Must(engine.Inspect(context.Background(), "telephony"))
	fmt.Println(info.Scheduled, info.Pending, "held for", time.Until(info.HeldUntil).Round(time.Minute))
	fmt.Println(engine.Resume(context.Background(), "telephony")) // by an operator that knows better
	info = core.Must(engine.Inspect(context.Background(), "telephony"))
	fmt.Println(info.HeldUntil.IsZero())
	// Output:
	// <nil>
	// 1 2 held for 15m0s
	// <nil>
	// true
}

// An operator pauses a queue, and changes its jobs.
func ExampleRunner_Engine() {
	calls := core.Must(jobs.New(jobs.Config{}))
	ctx, engine := context.Background(), calls.Engine()
	fmt.Println(engine.Pause(ctx, "telephony"))
	_ = core.Must(calls.Enqueue(ctx, jobs.Job{Queue: "telephony", ID: "call-1", NotBefore: time.Now().Add(time.Hour)}))
	_ = core.Must(calls.Enqueue(ctx, jobs.Job{Queue: "telephony", ID: "call-2", NotBefore: time.Now().Add(time.Hour)}))
	fmt.Println(engine.RunNow(ctx, "telephony", "call-1"))
	fmt.Println(engine.Delete(ctx, "telephony", "call-2"))
	info := core.Must(engine.Inspect(ctx, "telephony"))
	fmt.Println(info.Paused, info.Pending, info.Scheduled)
	fmt.Println(engine.Resume(ctx, "telephony"))
	fmt.Println(engine.Delete(ctx, "telephony", "call-2"))
	// Output:
	// <nil>
	// <nil>
	// <nil>
	// true 1 0
	// <nil>
	// jobs: no such job
}

// Hooks report how each attempt has ended.
func ExampleRunner_Observe() {
	calls := core.Must(jobs.New(jobs.Config{Queues: map[string]jobs.Queue{
		"telephony": {Backoff: backoff.Constant{Delay: time.Millisecond}, Handler: func(_ context.Context, job jobs.Job) error {
			if job.Attempt == 1 {
				return errors.New("line is busy")
			}
			return nil
		}},
	}}))
	done := make(chan struct{})
	calls.Observe(jobs.Hooks{
		Retried:   func(_ context.Context, event jobs.Event) { fmt.Println(event.Job.Attempt, event.Err) },
		Succeeded: func(_ context.Context, event jobs.Event) { fmt.Println(event.Job.Attempt, "succeeded"); close(done) },
	})
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() { _ = calls.Run(ctx) }()
	_ = core.Must(calls.Enqueue(ctx, jobs.Job{Queue: "telephony"}))
	<-done
	// Output:
	// 1 line is busy
	// 2 succeeded
}

// An engine in memory has room for a number of jobs.
func ExampleNewMemory() {
	calls := core.Must(jobs.New(jobs.Config{Engine: jobs.NewMemory(1)}))
	for range 2 {
		_, err := calls.Enqueue(context.Background(), jobs.Job{Queue: "telephony"})
		fmt.Println(err, errors.Is(err, core.ErrRejected))
	}
	// Output:
	// <nil> false
	// jobs: the engine is full: rejected true
}
