package backoff_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/gresil/gresil/core/backoff"
)

func Example() {
	s := backoff.Exponential{Initial: 500 * time.Millisecond, Max: 5 * time.Second}
	for n := 1; n <= 5; n++ {
		fmt.Println(s.Delay(n, 0))
	}
	// Output:
	// 500ms
	// 1s
	// 2s
	// 4s
	// 5s
}

func ExampleLinear() {
	s := backoff.Linear{Initial: 100 * time.Millisecond, Multiplier: 2}
	fmt.Println(s.Delay(1, 0), s.Delay(2, 0), s.Delay(3, 0))
	// Output: 100ms 300ms 500ms
}

func ExampleFunc() {
	s := backoff.Func(func(n int, _ time.Duration) time.Duration {
		return time.Duration(n*n) * time.Second
	})
	fmt.Println(s.Delay(3, 0))
	// Output: 9s
}

func ExampleFullJitter() {
	fixed := func() float64 { return 0.25 } // nil in production
	s := backoff.FullJitter(backoff.Constant{Wait: time.Second}, fixed)
	fmt.Println(s.Delay(1, 0))
	// Output: 250ms
}

func ExampleDecorrelated() {
	fixed := func() float64 { return 0.5 } // nil in production
	s := backoff.Decorrelated{Base: time.Second, Max: 10 * time.Second, Rand: fixed}
	prev := time.Duration(0)
	for n := 1; n <= 4; n++ {
		prev = s.Delay(n, prev)
		fmt.Println(prev)
	}
	// Output:
	// 2s
	// 3.5s
	// 5.5s
	// 5.5s
}

func ExampleValidate() {
	fmt.Println(backoff.Validate(backoff.Exponential{Initial: time.Second, Multiplier: 1, Jitter: 2}))
	// Output:
	// backoff.Exponential.Multiplier = 1: must be > 1 and finite (0 means 2)
	// backoff.Exponential.Jitter = 2: must be between 0 and 1
}

func ExampleSeeded() {
	waits := func(seed uint64) (all []time.Duration) {
		s := backoff.Constant{Wait: time.Second, Jitter: 0.5, Rand: backoff.Seeded(seed)}
		for n := 1; n <= 3; n++ {
			all = append(all, s.Delay(n, 0))
		}
		return all
	}
	fmt.Println(slices.Equal(waits(1), waits(1)), slices.Equal(waits(1), waits(2)))
	// Output: true false
}

// Half of each wait is certain, the other half is drawn.
func ExampleEqualJitter() {
	middle := func() float64 { return 0.5 }
	s := backoff.EqualJitter(backoff.Exponential{Initial: time.Second}, middle)
	fmt.Println(s.Delay(1, 0), s.Delay(2, 0))
	// Output: 750ms 1.5s
}
