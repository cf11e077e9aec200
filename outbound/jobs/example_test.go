package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/outbound/gate"
	"github.com/gresil/gresil/outbound/jobs"
)

func Example() {
	vendor := func(r *http.Request) (*http.Response, error) { // in place of a network
		body, _ := io.ReadAll(r.Body)
		fmt.Printf("%s with the key %s: %s\n", r.Method, r.Header.Get("Idempotency-Key"), body)
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r}, nil
	}
	telephony, err := gate.New(gate.Config{Name: "telephony", Limits: []gate.Limit{{N: 20, Per: time.Second}}})
	if err != nil {
		panic(err)
	}
	client := &http.Client{Transport: telephony.Transport(roundTrip(vendor))}
	dial := func(ctx context.Context, job jobs.Job) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://telephony.test/calls", strings.NewReader(string(job.Payload)))
		if err != nil {
			return core.Permanent(err)
		}
		req.Header.Set("Idempotency-Key", job.ID)
		resp, err := client.Do(req) // this request uses the permit of the attempt
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		if resp.StatusCode != http.StatusOK {
			return errors.New(resp.Status)
		}
		return nil
	}
	calls, err := jobs.New(jobs.Config{Queues: map[string]jobs.Queue{"telephony": {Gate: telephony, Handler: dial}}})
	if err != nil {
		panic(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- calls.Run(context.Background()) }()
	if _, err := calls.Enqueue(context.Background(), jobs.Job{Queue: "telephony", ID: "call-1", Payload: []byte("+49 30 1234")}); err != nil {
		panic(err)
	}
	for calls.Stats().Succeeded == 0 {
		time.Sleep(time.Millisecond)
	}
	fmt.Println("Close:", calls.Close(context.Background()))
	fmt.Println("Run:", <-ended)
	// Output:
	// POST with the key call-1: +49 30 1234
	// Close: <nil>
	// Run: <nil>
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

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

// A job whose error is permanent is kept, so that a person can look at it.
func ExampleRunner_Jobs() {
	ctx := context.Background()
	works := false
	calls, err := jobs.New(jobs.Config{Queues: map[string]jobs.Queue{"telephony": {Handler: func(context.Context, jobs.Job) error {
		if works {
			return nil
		}
		works = true
		return core.Permanent(errors.New("no such number"))
	}}}})
	if err != nil {
		panic(err)
	}
	go func() { _ = calls.Run(ctx) }()
	if _, err := calls.Enqueue(ctx, jobs.Job{Queue: "telephony", ID: "call-1"}); err != nil {
		panic(err)
	}
	for calls.Stats().Failed == 0 {
		time.Sleep(time.Millisecond)
	}
	for job, err := range calls.Jobs(ctx, "telephony", jobs.Failed) {
		fmt.Println(job.ID, job.State, job.LastError, err)
	}
	fmt.Println("again:", calls.RunNow(ctx, "telephony", "call-1"))
	fmt.Println("Close:", calls.Close(ctx), calls.Stats().Succeeded)
	// Output:
	// call-1 failed no such number <nil>
	// again: <nil>
	// Close: <nil> 1
}

// Feed enqueues a campaign a little ahead of its calls.
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
