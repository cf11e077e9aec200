package bulkhead_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/bulkhead"
)

func Example() {
	b := core.Must(bulkhead.New(bulkhead.Config{Name: "vendor", Limit: 1, MaxQueue: -1})) // no call waits
	ctx := context.Background()
	permit, err := b.Acquire(ctx, "account-1")
	fmt.Println(err)
	_, err = b.Acquire(ctx, "account-1")
	fmt.Println(err, errors.Is(err, core.ErrRejected))
	other, err := b.Acquire(ctx, "account-2") // has a permit of its own
	fmt.Println(err)
	other.Done(core.Success)
	permit.Done(core.Success)
	permit.Done(core.Success) // does nothing
	_, err = b.Acquire(ctx, "account-1")
	fmt.Println(err)
	// Output:
	// <nil>
	// bulkhead: vendor: full true
	// <nil>
	// <nil>
}

func ExampleDo() {
	b := core.Must(bulkhead.New(bulkhead.Config{Limit: 2}))
	n, err := bulkhead.Do(context.Background(), b, func(context.Context) (int, error) {
		return b.Stats().InFlight, nil
	})
	fmt.Println(n, err, b.Stats().InFlight)
	// Output: 1 <nil> 0
}

// A call of several permits waits until all of them are free. Meanwhile lighter calls wait
// behind it.
func ExampleBulkhead_AcquireN() {
	b := core.Must(bulkhead.New(bulkhead.Config{Limit: 3}))
	ctx := context.Background()
	_, err := b.AcquireN(ctx, "", 4)
	fmt.Println(err)
	permit, err := b.AcquireN(ctx, "", 3)
	fmt.Println(err, b.Stats().InFlight)
	permit.Done(core.Success)
	// Output:
	// bulkhead: default: a weight of 4 is above the limit of 3
	// <nil> 3
}

// With Backoff, an overload lowers the limit once, however many calls of it fail.
func ExampleConfig_backoff() {
	b := core.Must(bulkhead.New(bulkhead.Config{Limit: 8, MinLimit: 2, Backoff: 0.5}))
	ctx := context.Background()
	var overload [8]bulkhead.Permit
	for i := range overload {
		overload[i] = core.Must(b.Acquire(ctx, ""))
	}
	for i := range overload {
		overload[i].Done(core.Failure)
	}
	fmt.Println(b.Stats().Limit)
	var calls [4]bulkhead.Permit
	for i := range calls {
		calls[i] = core.Must(b.Acquire(ctx, ""))
	}
	calls[0].Done(core.Success)
	calls[1].Done(core.Success)
	calls[2].Done(core.Ignored)
	calls[3].Done(core.Failure)
	fmt.Println(b.Stats().Limit)
	// Output:
	// 4
	// 2
}

func ExampleBulkhead_SetConfig() {
	b := core.Must(bulkhead.New(bulkhead.Config{Limit: 1}))
	ctx := context.Background()
	first := core.Must(b.Acquire(ctx, ""))
	admitted := make(chan error)
	go func() {
		_, err := b.Acquire(ctx, "")
		admitted <- err
	}()
	fmt.Println(b.SetConfig(bulkhead.Config{Limit: 2}), <-admitted) // the waiter is admitted at once
	first.Done(core.Success)
	// Output: <nil> <nil>
}

func ExampleBulkhead_All() {
	b := core.Must(bulkhead.New(bulkhead.Config{Limit: 5}))
	core.Must(b.AcquireN(context.Background(), "account-1", 2))
	for key, state := range b.All() {
		fmt.Println(key, state.InFlight, "of", state.Limit)
	}
	_, ok := b.Key("account-2")
	fmt.Println(ok)
	// Output:
	// account-1 2 of 5
	// false
}
