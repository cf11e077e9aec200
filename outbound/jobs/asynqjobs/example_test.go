package asynqjobs_test

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/redistest"
	"github.com/gresil/gresil/outbound/jobs"
	"github.com/gresil/gresil/outbound/jobs/asynqjobs"
)

// One process enqueues a job, and another one runs it.
func Example() {
	addr, stop := redistest.ForExample()
	defer stop()
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer func() { _ = client.Close() }()
	ctx, end := context.WithCancel(context.Background())
	process := func(queues map[string]jobs.Queue) *jobs.Runner {
		engine := core.Must(asynqjobs.New(client, asynqjobs.Config{}))
		return core.Must(jobs.New(jobs.Config{Engine: engine, Queues: queues}))
	}
	enqueues := process(nil)
	fmt.Println(enqueues.Enqueue(ctx, jobs.Job{Queue: "telephony", ID: "call-1", Payload: []byte("+49 30 1234")}))
	fmt.Println(enqueues.Enqueue(ctx, jobs.Job{Queue: "telephony", ID: "call-1"}))

	called := make(chan string)
	runs := process(map[string]jobs.Queue{"telephony": {Handler: func(_ context.Context, job jobs.Job) error {
		called <- string(job.Payload)
		return nil
	}}})
	ended := make(chan error)
	go func() { ended <- runs.Run(ctx) }()
	fmt.Println("called", <-called)
	end()
	fmt.Println(<-ended)
	// Output:
	// call-1 <nil>
	// call-1 jobs: a job with this ID exists
	// called +49 30 1234
	// <nil>
}

// The engine connects when it is used.
func ExampleNew() {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"})
	defer func() { _ = client.Close() }()
	engine, err := asynqjobs.New(client, asynqjobs.Config{})
	if err != nil {
		panic(err)
	}
	calls, err := jobs.New(jobs.Config{Name: "calls", Engine: engine})
	fmt.Println(calls.Name(), err)
	_, err = asynqjobs.New(client, asynqjobs.Config{Poll: time.Hour})
	fmt.Println(err)
	// Output:
	// calls <nil>
	// asynqjobs.Config.Poll = 1h0m0s: must be 1ms to 1s (0 means 100ms)
}
