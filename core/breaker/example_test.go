package breaker_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/core/breaker"
)

func Example() {
	b, err := breaker.New(breaker.Config{Name: "billing", OpenDelay: backoff.Constant{Delay: 30 * time.Second}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 6 {
		_, err = breaker.Do(context.Background(), b, func(context.Context) (string, error) {
			return "", errors.New("connection refused")
		})
		fmt.Println(err)
	}
	fmt.Println(errors.Is(err, breaker.ErrOpen), b.Stats())
	// Output:
	// connection refused
	// connection refused
	// connection refused
	// connection refused
	// connection refused
	// breaker: billing: open for another 30s
	// true state=open failure_rate=1 failures=5 rejected=1 opened=1
}

func ExampleGroup() {
	hosts, err := breaker.NewGroup(breaker.Config{Name: "search", OnStateChange: func(_ context.Context, c breaker.StateChange) {
		fmt.Printf("%s: %v to %v: %s\n", c.Key, c.From, c.To, c.Reason)
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, host := range []string{"a.example.com", "b.example.com"} {
		for range 5 {
			_, _ = breaker.Do(context.Background(), hosts.For(host), func(context.Context) (int, error) {
				if host == "b.example.com" {
					return 0, errors.New("connection refused")
				}
				return 1, nil
			})
		}
	}
	// Output: b.example.com: closed to open: 5 failures in a row
}

func ExamplePermit_Trip() {
	b, err := breaker.New(breaker.Config{Name: "vendor"})
	if err != nil {
		fmt.Println(err)
		return
	}
	permit, err := b.Acquire(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	permit.Trip(5 * time.Minute) // the vendor has banned us
	_, err = b.Acquire(context.Background())
	fmt.Println(err)
	// Output: breaker: vendor: open for another 5m
}
