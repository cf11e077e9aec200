package bulkhead_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/core/bulkhead"
	"github.com/gresil/gresil/core/retry"
)

// A bulkhead belongs inside of a retry, as a call that waits for its next attempt holds no
// permit, and outside of a breaker.
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

func ExampleFullError() {
	b := core.Must(bulkhead.New(bulkhead.Config{Name: "vendor", Limit: 1, MaxWait: time.Millisecond}))
	permit, _ := b.Acquire(context.Background(), "")
	defer permit.Done(core.Ignored)
	_, err := b.Acquire(context.Background(), "")
	fmt.Println(err)
	fmt.Println(errors.Is(err, bulkhead.ErrFull), errors.Is(err, core.ErrRejected))
	// Output:
	// bulkhead: vendor: full
	// true true
}
