package asynqjobs_test

import (
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gresil/gresil/outbound/jobs"
	"github.com/gresil/gresil/outbound/jobs/asynqjobs"
)

// The engine connects when it is used.
func ExampleNew() {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"})
	defer func() { _ = client.Close() }()
	engine, err := asynqjobs.New(client, asynqjobs.Config{Repair: true})
	if err != nil {
		panic(err)
	}
	calls, err := jobs.New(jobs.Config{Name: "calls", Engine: engine})
	fmt.Println(calls.Name(), err)
	_, err = asynqjobs.New(client, asynqjobs.Config{Inline: time.Hour})
	fmt.Println(err)
	// Output:
	// calls <nil>
	// asynqjobs.Config.Inline = 1h0m0s: must be at most 10s (0 means 2s)
}
