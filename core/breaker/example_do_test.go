package breaker_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/core/breaker"
)

func Example() {
	b, err := breaker.New(breaker.Config{
		Name:      "vendor",
		Window:    4,
		OpenDelay: backoff.Constant{}, // so that this example need not wait
		Trials:    1,
		OnStateChange: func(_ context.Context, c breaker.StateChange) {
			fmt.Println(c.From, "to", c.To)
		},
	})
	if err != nil {
		panic(err)
	}
	up := false
	load := func(context.Context) (string, error) {
		if !up {
			return "", errors.New("out of order")
		}
		return "hello", nil
	}
	for range 4 {
		_, err = breaker.Do(context.Background(), b, load)
	}
	fmt.Println("last error:", err)
	up = true
	got, err := breaker.Do(context.Background(), b, load)
	fmt.Println(got, err)
	// Output:
	// closed to open
	// last error: out of order
	// open to half_open
	// half_open to closed
	// hello <nil>
}

func ExampleOpenError() {
	b := core.Must(breaker.New(breaker.Config{Name: "vendor"}))
	if err := b.SetState(breaker.ForcedOpen); err != nil {
		panic(err)
	}
	_, err := breaker.Do(context.Background(), b, func(context.Context) (int, error) { return 42, nil })
	fmt.Println(err)
	fmt.Println(errors.Is(err, breaker.ErrOpen), errors.Is(err, core.ErrRejected))
	// Output:
	// breaker: vendor: forced open
	// true true
}

func ExampleBreaker_Acquire() {
	b := core.Must(breaker.New(breaker.Config{Window: 2}))
	for _, outcome := range []core.Outcome{core.Success, core.Ignored, core.Failure} {
		permit, err := b.Acquire(context.Background())
		if err != nil {
			fmt.Println(err)
			continue
		}
		// make the call here
		permit.Done(outcome)
	}
	s := b.Snapshot()
	fmt.Printf("%v: %d of %d failed\n", s.State, s.Failures, s.Calls)
	// Output: open: 1 of 2 failed
}

func ExampleConfig() {
	base := breaker.Config{FailureRate: 0.3, Window: 50}
	strict := base
	strict.FailureRate = 0.1
	fmt.Println(base.FailureRate, strict.FailureRate, strict.Window)
	// Output: 0.3 0.1 50
}
