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
	p, err := retry.New(retry.Config{MaxAttempts: 4, Backoff: backoff.Constant{}})
	if err != nil {
		panic(err)
	}
	greeting, err := retry.Do(context.Background(), p, func(ctx context.Context) (string, error) {
		if n := retry.FromContext(ctx).Retry; n < 2 {
			return "", fmt.Errorf("attempt %d failed", n+1)
		}
		return "hello", nil
	})
	fmt.Println(greeting, err)
	// Output: hello <nil>
}

func ExampleError() {
	p := core.Must(retry.New(retry.Config{Backoff: backoff.Constant{}}))
	_, err := retry.Do(context.Background(), p, func(context.Context) (int, error) {
		return 0, errors.New("disk full")
	})
	fmt.Println(err)
	var exhausted *retry.Error
	fmt.Println(errors.As(err, &exhausted), exhausted.Attempts)
	// Output:
	// retry: gave up after 3 attempts: disk full
	// true 3
}

func ExampleConfig_retryIf() {
	errBusy := errors.New("busy")
	p := core.Must(retry.New(retry.Config{
		Backoff:     backoff.Constant{},
		RetryIf:     func(err error) bool { return errors.Is(err, errBusy) },
		RetryResult: func(result any) bool { return result == 0 },
	}))
	calls := 0
	_, err := retry.Do(context.Background(), p, func(context.Context) (int, error) {
		calls++
		return 0, errors.New("no such user")
	})
	fmt.Println(calls, err)
	// Output: 1 no such user
}

func ExampleConfig_map() {
	p := core.Must(retry.New(retry.Config{
		Backoff: backoff.Constant{},
		Map: func(result any, err error) (any, error) {
			return result, fmt.Errorf("state of the lamp: %w", err)
		},
	}))
	_, err := retry.Do(context.Background(), p, func(context.Context) (string, error) {
		return "", errors.New("connection refused")
	})
	fmt.Println(err)
	// Output: state of the lamp: retry: gave up after 3 attempts: connection refused
}
