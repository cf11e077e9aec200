package bulkhead_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/core/bulkhead"
	"github.com/gresil/gresil/core/retry"
)

func Example() {
	b := core.Must(bulkhead.New(bulkhead.Config{Name: "vendor", Limit: 1, MaxQueue: -1})) // no call waits
	ctx := context.Background()
	permit, err := b.Acquire(ctx, "account-1", 1)
	fmt.Println(err)
	_, err = b.Acquire(ctx, "account-1", 1)
	fmt.Println(err, errors.Is(err, bulkhead.ErrFull), errors.Is(err, core.ErrRejected))
	other, err := b.Acquire(ctx, "account-2", 1) // has a permit of its own
	fmt.Println(err)
	other.Done(core.Success)
	permit.Done(core.Success)
	fmt.Println(b.Stats())
	// Output:
	// <nil>
	// bulkhead: vendor: full true true
	// <nil>
	// in_flight=0/2 waiting=0 admitted=2 rejected=1
}

// With Backoff, an overload lowers the limit once, however many calls fail during it.
func ExampleConfig_backoff() {
	b := core.Must(bulkhead.New(bulkhead.Config{Limit: 8, MinLimit: 2, Backoff: 0.5}))
	var overload [8]bulkhead.Permit
	for i := range overload {
		overload[i] = core.Must(b.Acquire(context.Background(), "", 1))
	}
	for i := range overload {
		overload[i].Done(core.Failure)
	}
	fmt.Println(b.Stats().Limit)
	// Output: 4
}

// This call may wait for a minute, while others are rejected at once.
func ExampleBulkhead_Override() {
	b := core.Must(bulkhead.New(bulkhead.Config{Limit: 1, MaxQueue: -1}))
	ctx := context.Background()
	permit := core.Must(b.Acquire(ctx, "", 1))
	waits := make(chan error)
	go func() {
		ctx := b.Override(ctx, func(c *bulkhead.Config) { c.MaxQueue = 10 })
		_, err := b.Acquire(ctx, "", 1)
		waits <- err
	}()
	permit.Done(core.Success)
	fmt.Println(<-waits)
	// Output: <nil>
}

// A bulkhead belongs outside of a breaker, and inside of a retry: then a call that waits for its next attempt holds no permit.
func ExampleBulkhead_Run() {
	p := core.Must(core.NewPipeline(
		core.Must(retry.New(retry.Config{})),
		core.Must(bulkhead.New(bulkhead.Config{Limit: 8})),
		core.Must(breaker.New(breaker.Config{})),
	))
	n, err := core.Do(context.Background(), p, func(context.Context) (int, error) { return 42, nil })
	fmt.Println(n, err, p.Check())
	// Output: 42 <nil> []
}
