package backoff_test

import (
	"fmt"
	"time"

	"github.com/gresil/gresil/core/backoff"
)

func Example() {
	s := backoff.Exponential{Max: 5 * time.Second, Jitter: -1}
	for n := range 5 {
		fmt.Println(s.Next(n+1, 0))
	}
	// Output:
	// 500ms
	// 1s
	// 2s
	// 4s
	// 5s
}

func ExampleFunc() {
	s := backoff.Func(func(n int, _ time.Duration) time.Duration {
		return time.Duration(n*n) * time.Second
	})
	fmt.Println(s.Next(3, 0))
	// Output: 9s
}
