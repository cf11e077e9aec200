package retry_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/core/retry"
)

// One retry for five calls, and three each second besides: when everything fails,
// a hundred calls that would make three attempts each make no three hundred.
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

func ExampleMapError() {
	p := core.Must(retry.New(retry.Config{
		Backoff: backoff.Constant{},
		Map:     retry.MapError(func(err error) error { return fmt.Errorf("lamp: %w", err) }),
	}))
	_, err := retry.Do(context.Background(), p, func(context.Context) (int, error) {
		return 0, errors.New("connection refused")
	})
	fmt.Println(err)
	// Output: lamp: retry: gave up after 3 attempts: connection refused
}

func ExampleFromContext() {
	p := core.Must(retry.New(retry.Config{Backoff: backoff.Constant{}}))
	fmt.Println(retry.Do(context.Background(), p, func(ctx context.Context) (string, error) {
		if attempt := retry.FromContext(ctx); attempt.Retry < 2 {
			fmt.Println("attempt", attempt.Retry+1, "after", attempt.Err)
			return "", errors.New("not yet")
		}
		return "hello", nil
	}))
	// Output:
	// attempt 1 after <nil>
	// attempt 2 after not yet
	// hello <nil>
}

func ExamplePolicy_SetConfig() {
	p := core.Must(retry.New(retry.Config{Backoff: backoff.Constant{}}))
	cfg := p.Config()
	cfg.MaxAttempts = -5
	fmt.Println(p.SetConfig(cfg))
	cfg.MaxAttempts = 5
	fmt.Println(p.SetConfig(cfg))
	_, err := retry.Do(context.Background(), p, func(context.Context) (int, error) {
		return 0, errors.New("disk full")
	})
	fmt.Println(err)
	// Output:
	// retry.Config.MaxAttempts = -5: must be >= 0 (0 means 3)
	// <nil>
	// retry: gave up after 5 attempts: disk full
}
