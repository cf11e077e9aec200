package limits

import (
	"context"
	"time"

	"github.com/gresil/gresil/core/ratelimit/driver"
)

// A QueueTable is a Table that keeps a queue of waiters for each key.
type QueueTable interface {
	driver.Table
	// Enter takes permits, refuses, or joins the queue of a key. If it joins, the Waiter is
	// not nil, and the Wait of the Result is an estimate.
	Enter(key string, r Request) (Waiter, driver.Result, error)
}

// A Request is a cost that can wait.
type Request struct {
	Limit       func() (driver.ID, *driver.Change) // the limit in force, which can change during the wait
	Cost        int64                              // at least 1
	MaxWait     time.Duration
	NewestFirst bool
	Room        func(capacity int64) int64 // how many permits may wait
}

// A Waiter is one place in a queue.
type Waiter interface {
	// Await waits until the request is served or refused. If ctx or done ends before, the
	// request has left the queue, and the error is the cause.
	Await(ctx context.Context, done <-chan struct{}) (driver.Result, error)
	// Leave takes the request out of the queue if it is still there.
	Leave()
}
