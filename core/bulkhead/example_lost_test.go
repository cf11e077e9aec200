package bulkhead_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/bulkhead"
)

// A call ends when it has lost its permits in the Store, as after a pause of its process.
func ExamplePermit_Context() {
	store := newSharedStore() // that of stores/redisstore is shared by many processes
	vendor := core.Must(bulkhead.New(bulkhead.Config{Name: "vendor", Limit: 10, Store: store}))
	permit, err := vendor.Acquire(context.Background(), "account 7")
	if err != nil {
		return
	}
	defer func() { permit.Done(core.Ignored) }()
	ctx := permit.Context()
	store.asked[0].Lost(nil) // its lease was not renewed
	<-ctx.Done()
	fmt.Println(errors.Is(context.Cause(ctx), bulkhead.ErrLost))
	// Output: true
}

// Bulkheads of one name and Store share their permits.
func ExampleStore() {
	store := newSharedStore() // that of stores/redisstore is shared by many processes
	cfg := bulkhead.Config{Name: "vendor", Limit: 2, Store: store, MaxQueue: -1}
	first, second := core.Must(bulkhead.New(cfg)), core.Must(bulkhead.New(cfg))
	ctx := context.Background()
	permit, err := first.AcquireN(ctx, "account 7", 2)
	fmt.Println(err)
	_, err = second.Acquire(ctx, "account 7")
	fmt.Println(err)
	permit.Done(core.Success)
	_, err = second.Acquire(ctx, "account 7")
	fmt.Println(err)
	// Output:
	// <nil>
	// bulkhead: vendor: full
	// <nil>
}

// OnStoreError decides about calls while the Store is unavailable.
func ExampleFailurePolicy() {
	store := newSharedStore()
	store.fail(errors.New("no connection"))
	for _, policy := range []bulkhead.FailurePolicy{bulkhead.Deny, bulkhead.Local} {
		vendor := core.Must(bulkhead.New(bulkhead.Config{Name: "vendor", Limit: 1, MaxQueue: -1, Store: store, OnStoreError: policy}))
		for range 2 {
			_, err := vendor.Acquire(context.Background(), "account 7")
			fmt.Println(policy, err, errors.Is(err, bulkhead.ErrStore))
		}
	}
	// Output:
	// deny bulkhead: vendor: store failed: no connection true
	// deny bulkhead: vendor: store failed: no connection true
	// local <nil> false
	// local bulkhead: vendor: full false
}
