package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
)

// Do waits for a permit of one key, the empty one, and runs the operation.
func ExampleDo() {
	l := core.Must(ratelimit.New(ratelimit.Config{Limit: ratelimit.PerMinute(1), MaxWait: time.Second}))
	for range 2 {
		answer, err := ratelimit.Do(context.Background(), l, "", func(context.Context) (int, error) { return 42, nil })
		fmt.Println(answer, errors.Is(err, ratelimit.ErrLimited))
	}
	// Output:
	// 42 false
	// 0 true
}

// The error of a refused wait has the state of the key.
func ExampleLimitedError() {
	l := core.Must(ratelimit.New(ratelimit.Config{Name: "api", Limit: ratelimit.PerMinute(10)}))
	_, err := l.Wait(context.Background(), "ann", 11)
	if limited, ok := errors.AsType[*ratelimit.LimitedError](err); ok {
		fmt.Println(limited.Name, limited.Result.Limit, limited.RetryAfter() == ratelimit.Never)
	}
	// Output: api 10 true
}

// Other settings apply from the next call on. Usage stays.
func ExampleLimiter_SetConfig() {
	l := core.Must(ratelimit.New(ratelimit.Config{Limit: ratelimit.PerMinute(10)}))
	_, _ = l.Take(context.Background(), "ann", 4)
	cfg := l.Config()
	cfg.Limit, cfg.MaxWait = ratelimit.PerMinute(5), time.Second
	fmt.Println(l.SetConfig(cfg))
	left, err := l.Peek(context.Background(), "ann")
	fmt.Println(left.Remaining, err)
	// Output:
	// <nil>
	// 1 <nil>
}

// A call that was not made gives back its permits of all limits.
func ExampleChain_Refund() {
	user := core.Must(ratelimit.New(ratelimit.Config{Name: "user", Limit: ratelimit.PerMinute(2)}))
	all := core.Must(ratelimit.New(ratelimit.Config{Name: "all", Limit: ratelimit.PerMinute(100)}))
	chain := ratelimit.Chain{{Limiter: user, Key: "ann"}, {Limiter: all}}
	ctx := context.Background()
	take, err := chain.Take(ctx, 2)
	fmt.Println(take.Allowed, take.Remaining, err)
	fmt.Println(chain.Refund(ctx, take))
	take, err = chain.Take(ctx, 1)
	fmt.Println(take.Allowed, take.Remaining, err)
	// Output:
	// true 0 <nil>
	// <nil>
	// true 1 <nil>
}

// Limiters over one store share the usage of their keys if they have one name.
func ExampleNewMemory() {
	store := core.Must(ratelimit.NewMemory(10_000))
	defer func() { _ = store.Close() }()
	for range 2 {
		l := core.Must(ratelimit.New(ratelimit.Config{Name: "api", Limit: ratelimit.PerMinute(5), Store: store}))
		r, err := l.Take(context.Background(), "ann", 1)
		fmt.Println(r.Remaining, err)
	}
	// Output:
	// 4 <nil>
	// 3 <nil>
}
