package timeout_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/timeout"
)

// The error of an operation over its limit has the limit, and matches that of a deadline.
func ExampleError() {
	limit := core.Must(timeout.New(timeout.Config{Name: "db", Limit: time.Millisecond}))
	_, err := timeout.Do(context.Background(), limit, func(ctx context.Context) (int, error) {
		<-ctx.Done()
		return 0, ctx.Err()
	})
	if late, ok := errors.AsType[*timeout.Error](err); ok {
		fmt.Println(late.Name, late.Limit, errors.Is(err, context.DeadlineExceeded))
	}
	fmt.Println(err)
	// Output:
	// db 1ms true
	// timeout: "db" took longer than 1ms
}

// An adapter that does not wait for an operation without a context makes the context
// itself.
func ExampleTimeout_Finish() {
	limit := core.Must(timeout.New(timeout.Config{Name: "disk", Limit: time.Millisecond}))
	release := make(chan struct{})
	read := func() { <-release } // it cannot be interrupted

	caller := context.Background()
	cause := &timeout.Error{Name: limit.Name(), Limit: limit.Limit()}
	ctx, cancel := context.WithTimeoutCause(caller, limit.Limit(), cause)
	defer cancel()
	ended := make(chan struct{})
	go func() { defer close(ended); read() }()
	select {
	case <-ended:
		fmt.Println(limit.Finish(caller, ctx, nil))
	case <-ctx.Done():
		back := limit.Abandon()
		fmt.Println(limit.Finish(caller, ctx, ctx.Err()))
		fmt.Println(limit.Stats().TimedOut, limit.Stats().Abandoned)
		close(release)
		<-ended
		back()
	}
	fmt.Println(limit.Stats().Abandoned)
	// Output:
	// timeout: "disk" took longer than 1ms
	// 1 1
	// 0
}
