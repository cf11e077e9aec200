package breaker_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/breaker"
)

// A Classify of your own calls the default for the errors that it does not know.
func ExampleDefaultClassify() {
	errNotFound := errors.New("not found")
	b := core.Must(breaker.New(breaker.Config{
		Classify: func(ctx context.Context, result any, err error) core.Outcome {
			if errors.Is(err, errNotFound) {
				return core.Success // the server works
			}
			return breaker.DefaultClassify(ctx, result, err)
		},
	}))
	for _, err := range []error{errNotFound, errors.New("reset"), context.Canceled, core.ErrRejected} {
		_, _ = breaker.Do(context.Background(), b, func(context.Context) (int, error) { return 0, err })
	}
	s := b.Stats()
	fmt.Println(s.Successes, s.Failures, s.Ignored)
	// Output: 1 2 1
}

// A failure that comes with a Retry-After opens the breaker for at least that long, if it
// opens it.
func ExamplePermit_Failed() {
	b := core.Must(breaker.New(breaker.Config{Failures: 1}))
	permit, err := b.Acquire(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	permit.Failed(time.Hour)
	fmt.Println(b.State(), b.Snapshot().RetryAfter().Round(time.Hour))
	// Output: open 1h0m0s
}

// Lookup finds the breaker of a key, and never makes one.
func ExampleGroup_Lookup() {
	hosts := core.Must(breaker.NewGroup(breaker.Config{}, 0))
	fmt.Println(hosts.Lookup("a.example") == nil)
	made := hosts.Get("a.example")
	fmt.Println(hosts.Lookup("a.example") == made, hosts.Stats().Keys)
	// Output:
	// true
	// true 1
}
