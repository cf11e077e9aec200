package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
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
		Name:    "reports",
		Limit:   ratelimit.TokenBucket(100, time.Second, 1), // one each 10ms
		MaxWait: 15 * time.Millisecond,
	}))
	ctx := context.Background()
	for range 2 {
		if _, err := limiter.Wait(ctx, "tenant", 1); err == nil {
			fmt.Println("done")
		}
	}
	_, err := limiter.Wait(ctx, "tenant", 5) // more than there ever is at once
	fmt.Println(errors.Is(err, core.ErrRejected), err)
	// Output:
	// done
	// done
	// true ratelimit: reports: the cost is above the limit of 1
}

// Permits that were not used are given back.
func ExampleLimiter_Refund() {
	limiter := core.Must(ratelimit.New(ratelimit.Config{Limit: ratelimit.PerMinute(10)}))
	ctx := context.Background()
	take, _ := limiter.Take(ctx, "key", 4)
	fmt.Println(take.Remaining)
	fmt.Println(limiter.Refund(ctx, take))
	now, _ := limiter.Peek(ctx, "key")
	fmt.Println(now.Remaining)
	// Output:
	// 6
	// <nil>
	// 10
}

// A user with another plan keeps the usage so far.
func ExampleLimiter_Under() {
	limiter := core.Must(ratelimit.New(ratelimit.Config{
		Limit:  ratelimit.PerMinute(10),
		Limits: map[string]ratelimit.Limit{"gold": ratelimit.PerMinute(1000)},
	}))
	ctx := context.Background()
	_, _ = limiter.Take(ctx, "ann", 10)
	r, _ := limiter.Under("gold").Take(ctx, "ann", 1)
	fmt.Println(r.Allowed, r.Remaining)
	// Output: true 989
}

func ExampleLimiter_SetConfig() {
	limiter := core.Must(ratelimit.New(ratelimit.Config{Limit: ratelimit.PerMinute(10)}))
	ctx := context.Background()
	_, _ = limiter.Take(ctx, "ann", 4)
	cfg := limiter.Config()
	cfg.Limit = ratelimit.PerMinute(5)
	fmt.Println(limiter.SetConfig(cfg))
	r, _ := limiter.Peek(ctx, "ann")
	fmt.Println(r.Remaining)
	cfg.Limit = ratelimit.PerMinute(-1)
	fmt.Println(limiter.SetConfig(cfg))
	// Output:
	// <nil>
	// 1
	// ratelimit.Config.Limit = -1/1m: must have 1 to 274877906944 permits
}

func ExampleLimit_UnmarshalText() {
	var limit ratelimit.Limit
	fmt.Println(limit.UnmarshalText([]byte("10/1s burst 20 and 1000/24h aligned")), limit)
	// Output: <nil> 10/1s burst 20 and 1000/24h aligned
}
