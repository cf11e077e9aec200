package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/ratelimittest"
)

func ExampleLimiter_Take() {
	limiter := core.Must(ratelimit.New(ratelimit.Config{Limit: ratelimit.PerMinute(3)}))
	for range 4 {
		r, err := limiter.Take(context.Background(), "203.0.113.7", 1)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(r.Allowed, r.Remaining, r.RetryAfter.Round(time.Minute))
	}
	// Output:
	// true 2 0s
	// true 1 0s
	// true 0 0s
	// false 0 1m0s
}

func ExampleLimiter_Wait() {
	limiter := core.Must(ratelimit.New(ratelimit.Config{
		Name:    "vendor",
		Limit:   ratelimit.TokenBucket(100, time.Second, 1), // one each 10ms
		MaxWait: 15 * time.Millisecond,
	}))
	ctx := context.Background()
	for range 2 {
		if _, err := limiter.Wait(ctx, "tenant", 1); err == nil {
			fmt.Println("sent")
		}
	}
	_, err := limiter.Wait(ctx, "tenant", 5) // more than there ever is at once
	fmt.Println(errors.Is(err, core.ErrRejected), err)
	// Output:
	// sent
	// sent
	// true ratelimit: vendor: the cost is above the limit of 1
}

func ExampleLimiter_Refund() {
	limiter := core.Must(ratelimit.New(ratelimit.Config{Limit: ratelimit.PerMinute(10)}))
	ctx := context.Background()
	take, _ := limiter.Take(ctx, "key", 4)
	fmt.Println(take.Remaining)
	_ = limiter.Refund(ctx, take) // it was not used after all
	after, _ := limiter.Peek(ctx, "key")
	fmt.Println(after.Remaining)
	// Output:
	// 6
	// 10
}

func ExampleLimiter_WithLimit() {
	limiter := core.Must(ratelimit.New(ratelimit.Config{Limit: ratelimit.PerMinute(10)}))
	premium := core.Must(limiter.WithLimit(ratelimit.PerMinute(1000)))
	ctx := context.Background()
	_, _ = limiter.Take(ctx, "ann", 10)
	r, _ := premium.Take(ctx, "ann", 1) // she just upgraded: what she took stays taken
	fmt.Println(r.Allowed, r.Remaining)
	// Output: true 989
}

func ExampleLimiter_Drain() {
	limiter := core.Must(ratelimit.New(ratelimit.Config{Limit: ratelimit.PerMinute(10)}))
	ctx := context.Background()
	r, _ := limiter.Drain(ctx, "vendor") // the vendor said that it had enough
	fmt.Println(r.Permits, r.Remaining)
	// Output: 10 0
}

func ExampleLimit_Validate() {
	fmt.Println(ratelimit.FixedWindow(0, -time.Second).Validate())
	// Output:
	// ratelimit.Limit.Permits = 0: must be 1 to 274877906944 (only the zero Limit means 1000)
	// ratelimit.Limit.Period = -1s: must be 1ns to 43800h0m0s (only the zero Limit means 1m0s)
}

func ExampleLimiter_TakeAtMost() {
	limiter := core.Must(ratelimit.New(ratelimit.Config{Limit: ratelimit.PerMinute(10)}))
	ctx := context.Background()
	r, _ := limiter.TakeAtMost(ctx, "batch", 8)
	fmt.Println(r.Permits)
	r, _ = limiter.TakeAtMost(ctx, "batch", 8) // what there is
	fmt.Println(r.Permits, r.Remaining)
	_ = limiter.Reset(ctx, "batch")
	r, _ = limiter.Peek(ctx, "batch")
	fmt.Println(r.Remaining)
	// Output:
	// 8
	// 2 0
	// 10
}

func ExampleConfig_store() {
	store := &ratelimittest.Failing{Store: core.Must(ratelimit.NewMemory(10_000))}
	limiter := core.Must(ratelimit.New(ratelimit.Config{
		Store:        store, // shared by several limiters, or by several machines
		OnStoreError: ratelimit.Deny,
	}))
	store.Down()
	_, err := limiter.Take(context.Background(), "key", 1)
	fmt.Println(errors.Is(err, ratelimit.ErrStore), errors.Is(err, core.ErrRejected))
	fmt.Println(err)
	// Output:
	// true false
	// ratelimit: default: store failed: ratelimittest: store is down
}
