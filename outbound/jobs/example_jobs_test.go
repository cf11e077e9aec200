package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/outbound/jobs"
)

func Example() {
	done := make(chan struct{})
	calls, err := jobs.New(jobs.Config{Queues: map[string]jobs.Queue{
		"telephony": {Handler: func(_ context.Context, job jobs.Job) error {
			fmt.Printf("attempt %d of %s: %s\n", job.Attempt, job.ID, job.Payload)
			close(done)
			return nil
		}},
	}})
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- calls.Run(ctx) }()
	if _, err := calls.Enqueue(ctx, jobs.Job{Queue: "telephony", ID: "call-1", Payload: []byte("+49 30 1234")}); err != nil {
		panic(err)
	}
	<-done
	stop()
	fmt.Println("Run:", <-ended)
	// Output:
	// attempt 1 of call-1: +49 30 1234
	// Run: <nil>
}

// A handler that is not ready returns the time at which it wants to run again. This uses no attempt.
func ExampleRunAt() {
	var ready time.Time
	done := make(chan struct{})
	calls, err := jobs.New(jobs.Config{Queues: map[string]jobs.Queue{
		"reports": {Handler: func(_ context.Context, job jobs.Job) error {
			if ready.IsZero() {
				fmt.Println("not ready")
				ready = time.Now().Add(20 * time.Millisecond)
				return jobs.RunAt(ready)
			}
			fmt.Println("ready, attempt", job.Attempt)
			close(done)
			return nil
		}},
	}})
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() { _ = calls.Run(ctx) }()
	if _, err := calls.Enqueue(ctx, jobs.Job{Queue: "reports", MaxAttempts: 1}); err != nil {
		panic(err)
	}
	<-done
	// Output:
	// not ready
	// ready, attempt 1
}

// A job whose error is permanent is kept, for a person to look at.
func Example_permanent() {
	failed := make(chan struct{})
	calls, err := jobs.New(jobs.Config{
		Queues: map[string]jobs.Queue{
			"telephony": {Handler: func(context.Context, jobs.Job) error {
				return core.Permanent(errors.New("no such number"))
			}},
		},
		Hooks: jobs.Hooks{Failed: func(context.Context, jobs.Event) { close(failed) }},
	})
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- calls.Run(ctx) }()
	if _, err := calls.Enqueue(ctx, jobs.Job{Queue: "telephony", ID: "call-1"}); err != nil {
		panic(err)
	}
	<-failed
	stop()
	fmt.Println("Run:", <-ended)
	for info, err := range calls.Engine().List(context.Background(), "telephony", jobs.Failed) {
		fmt.Println(info.ID, info.State, info.LastError, err)
	}
	// Output:
	// Run: <nil>
	// call-1 failed no such number <nil>
}

// A campaign is fed a little ahead of the calls.
func ExampleRunner_Feed() {
	numbers := []string{"+49 30 1", "+49 30 2", "+49 30 3"}
	calls, err := jobs.New(jobs.Config{})
	if err != nil {
		panic(err)
	}
	fed, skipped, err := calls.Feed(context.Background(), func(yield func(jobs.Job) bool) {
		for i, number := range numbers {
			if !yield(jobs.Job{Queue: "telephony", Campaign: "autumn", ID: fmt.Sprintf("autumn-%d", i), Payload: []byte(number)}) {
				return
			}
		}
	})
	fmt.Println("fed", fed, "skipped", skipped, err)
	deleted, err := calls.Cancel(context.Background(), "telephony", "autumn")
	fmt.Println("deleted", deleted, err)
	// Output:
	// fed 3 skipped 0 <nil>
	// deleted 3 <nil>
}

// RandomSpread is for a vendor that should see the calls over its limit at random times of the next minute.
func ExampleRandomSpread() {
	q := jobs.Queue{
		Handler: func(context.Context, jobs.Job) error { return nil },
		Spread:  jobs.RandomSpread(60*time.Second, 120*time.Second),
	}
	wait := q.Spread.Next(1, 0)
	fmt.Println(wait >= time.Minute && wait <= 2*time.Minute)
	// Output: true
}
