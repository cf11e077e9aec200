package retry_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/core/retry"
)

func Example() {
	policy, err := retry.New(retry.Config{MaxAttempts: 4, Backoff: backoff.Constant{}})
	if err != nil {
		panic(err)
	}
	greeting, err := retry.Do(context.Background(), policy, func(ctx context.Context) (string, error) {
		if n := retry.Attempt(ctx); n < 3 {
			return "", fmt.Errorf("attempt %d failed", n)
		}
		return "hello", nil
	})
	fmt.Println(greeting, err)
	fmt.Println(policy.Stats())
	// Output:
	// hello <nil>
	// succeeded=0 recovered=1 failed=0 retries=2
}

func ExampleError() {
	policy := core.Must(retry.New(retry.Config{Name: "disk", Backoff: backoff.Constant{}}))
	_, err := retry.Do(context.Background(), policy, func(context.Context) (int, error) {
		return 0, errors.New("disk full")
	})
	fmt.Println(err)
	exhausted, ok := errors.AsType[*retry.Error](err)
	fmt.Println(ok, exhausted.Attempts, exhausted.Reason)
	// Output:
	// retry: disk: gave up after attempt 3 (exhausted): disk full
	// true 3 exhausted
}

// An adapter decides about each attempt with a function of its own.
func ExampleLoop() {
	policy := core.Must(retry.New(retry.Config{Backoff: backoff.Constant{}}))
	reply, err := retry.Loop(context.Background(), policy, func(ctx context.Context) (string, error) {
		return fmt.Sprintf("reply %d", retry.Attempt(ctx)), nil
	}, func(reply string, err error) retry.Decision {
		return retry.Decision{Retry: err != nil || reply == "reply 1"}
	})
	fmt.Println(reply, err)
	// Output: reply 2 <nil>
}

// The budget allows one retry for five calls, and three more each second.
func ExampleBudget() {
	budget, err := retry.NewBudget(0.2, 3)
	if err != nil {
		panic(err)
	}
	reads := core.Must(retry.New(retry.Config{Name: "reads", Backoff: backoff.Constant{}, Budget: budget}))
	writes := core.Must(retry.New(retry.Config{Name: "writes", Backoff: backoff.Constant{}, Budget: budget}))
	attempts := 0
	down := func(context.Context) (int, error) { attempts++; return 0, errors.New("down") }
	for range 50 {
		_, _ = retry.Do(context.Background(), reads, down)
		_, _ = retry.Do(context.Background(), writes, down)
	}
	fmt.Println("at most 123:", attempts <= 123)
	fmt.Println("left:", budget.Left())
	// Output:
	// at most 123: true
	// left: 0
}

func ExamplePolicy_Override() {
	policy := core.Must(retry.New(retry.Config{Backoff: backoff.Constant{}}))
	ctx := policy.Override(context.Background(), func(c *retry.Config) { c.MaxAttempts = 1 })
	_, err := retry.Do(ctx, policy, func(context.Context) (int, error) { return 0, errors.New("disk full") })
	fmt.Println(err)
	// Output: disk full
}
