package timeout_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/timeout"
)

func Example() {
	t := core.Must(timeout.New(timeout.Config{Name: "report", Limit: time.Nanosecond}))
	_, err := timeout.Do(context.Background(), t, func(ctx context.Context) (string, error) {
		<-ctx.Done() // a query that takes too long
		return "", ctx.Err()
	})
	fmt.Println(err)
	fmt.Println(errors.Is(err, timeout.ErrTimeout), errors.Is(err, context.DeadlineExceeded))
	// Output:
	// timeout: "report" took longer than 1ns
	// true true
}

func ExampleTimeout_SetConfig() {
	t := core.Must(timeout.New(timeout.Config{Name: "report", Limit: time.Minute}))
	fmt.Println(t.SetConfig(timeout.Config{Limit: time.Second}), t.Name(), t.Limit())
	fmt.Println(t.SetConfig(timeout.Config{Name: "other"}))
	// Output:
	// <nil> report 1s
	// timeout.Config.Name = other: must stay report
}
