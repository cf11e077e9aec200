package timeout_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/timeout"
)

// The error of an operation that exceeds its limit has the name and the limit, and matches context.DeadlineExceeded.
func Example() {
	limit := core.Must(timeout.New(timeout.Config{Name: "report", Limit: time.Millisecond}))
	_, err := timeout.Do(context.Background(), limit, func(ctx context.Context) (string, error) {
		<-ctx.Done() // a query that takes too long
		return "", ctx.Err()
	})
	fmt.Println(err)
	fmt.Println(errors.Is(err, timeout.ErrTimeout), errors.Is(err, context.DeadlineExceeded))
	fmt.Println(limit.Stats())
	// Output:
	// timeout: "report" took longer than 1ms
	// true true
	// succeeded=0 failed=0 timed_out=1
}

// A caller can set a longer limit, or none at all, in its context.
func ExampleTimeout_Override() {
	limit := core.Must(timeout.New(timeout.Config{Limit: time.Second}))
	ctx := limit.Override(context.Background(), func(c *timeout.Config) { c.Limit = -1 })
	_, _ = timeout.Do(ctx, limit, func(ctx context.Context) (int, error) {
		_, limited := ctx.Deadline()
		fmt.Println(limited)
		return 0, nil
	})
	// Output: false
}
