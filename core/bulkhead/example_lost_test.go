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
