package retry_test

import (
	"context"
	"fmt"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/core/retry"
)

// The wait counts from the response, not from the end of the work that follows it, such as
// reading its body.
func ExampleCall_EndedAt() {
	p := core.Must(retry.New(retry.Config{Backoff: backoff.Constant{Delay: time.Hour}}))
	c := p.Begin(nil)
	c.EndedAt(time.Now().Add(-59 * time.Minute)) // the response came then, and its body was slow
	verdict := c.Next(context.Background(), retry.Attempt{Result: 503, Retryable: true})
	fmt.Println(verdict, c.Left().Round(time.Minute))
	// Output: again 1m0s
}
