package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
)

func ExampleLimit_And() {
	limiter := core.Must(ratelimit.New(ratelimit.Config{
		Limit: ratelimit.PerSecond(5).And(ratelimit.PerHour(8)), // no bursts, and not too much in all
	}))
	ctx := context.Background()
	r, _ := limiter.Take(ctx, "key", 5)
	fmt.Println(r.Allowed, r.Remaining, "of", r.Limit)
	r, _ = limiter.Take(ctx, "key", 4) // of neither: the second has only three left
	fmt.Println(r.Allowed, r.Remaining, "of", r.Limit, limiter.Limit().All()[r.Which])
	hour := core.Must(limiter.WithLimit(ratelimit.PerHour(8)))
	r, _ = hour.Peek(ctx, "key") // one of them alone
	fmt.Println(r.Remaining)
	// Output:
	// true 0 of 5
	// false 3 of 8 8/1h
	// 3
}

func ExampleSlidingWindow() {
	fmt.Println(ratelimit.SlidingWindow(100, time.Minute, 6)) // segments of ten seconds
	// Output: sliding_window 100/1m segments 6
}

func ExampleSlidingCounter() {
	limiter := core.Must(ratelimit.New(ratelimit.Config{Limit: ratelimit.SlidingCounter(4, time.Hour)}))
	ctx := context.Background()
	_, _ = limiter.Take(ctx, "key", 4)
	r, _ := limiter.Take(ctx, "key", 1)
	fmt.Println(r.RetryAfter.Round(time.Minute)) // an hour later all four still count; a quarter on, three do
	// Output: 1h15m0s
}

func ExampleSlidingLog() {
	limiter := core.Must(ratelimit.New(ratelimit.Config{Limit: ratelimit.SlidingLog(5, time.Hour)})) // never more than 5 in any hour
	ctx := context.Background()
	_, _ = limiter.Take(ctx, "password reset", 5)
	r, _ := limiter.Take(ctx, "password reset", 1)
	fmt.Println(r.Allowed, r.RetryAfter.Round(time.Minute))
	// Output: false 1h0m0s
}

func ExampleAlignedWindow() {
	limiter := core.Must(ratelimit.New(ratelimit.Config{Limit: ratelimit.AlignedWindow(1000, 24*time.Hour)})) // a quota for each day, in UTC
	r, _ := limiter.Take(context.Background(), "key", 1)
	midnight := time.Now().Add(r.FullAfter).UTC()
	fmt.Println(midnight.Round(time.Minute).Format("15:04"))
	// Output: 00:00
}

func ExampleTokenBucket_shaper() {
	limiter := core.Must(ratelimit.New(ratelimit.Config{Limit: ratelimit.TokenBucket(200, time.Second, 1)}))
	start := time.Now()
	for range 3 {
		_, _ = limiter.Wait(context.Background(), "vendor", 1)
	}
	fmt.Println(time.Since(start) >= 10*time.Millisecond) // one at once, one each 5ms
	// Output: true
}

func ExampleLimiter_Reserve() {
	limiter := core.Must(ratelimit.New(ratelimit.Config{Limit: ratelimit.TokenBucket(1, time.Minute, 1)}))
	ctx := context.Background()
	for range 2 {
		r, _ := limiter.Reserve(ctx, "vendor", 1, time.Hour)
		fmt.Println(r.Allowed, r.Wait.Round(time.Minute)) // to be used after so long
	}
	r, _ := limiter.Reserve(ctx, "vendor", 1, time.Minute)
	fmt.Println(r.Allowed, r.RetryAfter.Round(time.Minute))
	// Output:
	// true 0s
	// true 1m0s
	// false 2m0s
}

func ExampleLimiter_SetLimit() {
	limiter := core.Must(ratelimit.New(ratelimit.Config{Limit: ratelimit.TokenBucket(10, time.Minute, 10)}))
	ctx := context.Background()
	_, _ = limiter.Take(ctx, "key", 10)
	if err := limiter.SetLimit(ratelimit.TokenBucket(60, time.Minute, 10)); err != nil { // at once, and nothing is given away
		fmt.Println(err)
	}
	r, _ := limiter.Take(ctx, "key", 1)
	fmt.Println(r.Allowed, limiter.Limit())
	fmt.Println(limiter.SetLimit(ratelimit.PerMinute(-1)))
	// Output:
	// false 60/1m burst 10
	// ratelimit.Limit.Permits = -1: must be 1 to 274877906944 (only the zero Limit means 1000)
}

func ExampleLimiter_SetKeyLimit() {
	limiter := core.Must(ratelimit.New(ratelimit.Config{Limit: ratelimit.PerMinute(10)}))
	ctx := context.Background()
	if err := limiter.SetKeyLimit("crawler", ratelimit.PerMinute(1)); err != nil {
		fmt.Println(err)
	}
	r, _ := limiter.Take(ctx, "crawler", 1)
	fmt.Println(r.Remaining, "of", r.Limit)
	limiter.ClearKeyLimit("crawler")
	r, _ = limiter.Peek(ctx, "crawler")
	fmt.Println(r.Remaining, "of", r.Limit)
	// Output:
	// 0 of 1
	// 9 of 10
}

func ExampleChain() {
	everybody := core.Must(ratelimit.New(ratelimit.Config{Name: "everybody", Limit: ratelimit.PerSecond(1000)}))
	users := core.Must(ratelimit.New(ratelimit.Config{Name: "users", Limit: ratelimit.PerMinute(1)}))
	ctx := context.Background()
	for range 2 {
		chain := ratelimit.Chain{{Limiter: everybody}, {Limiter: users, Key: "ann"}}
		r, err := chain.Take(ctx, 1)
		if err != nil {
			fmt.Println(err)
		}
		fmt.Println(r.Allowed, r.RetryAfter.Round(time.Minute), chain[r.Link].Limiter.Name())
	}
	r, _ := everybody.Peek(ctx, "")
	fmt.Println(r.Remaining) // the refused one has cost nothing
	// Output:
	// true 0s users
	// false 1m0s users
	// 999
}

func ExampleChain_Wait() {
	users := core.Must(ratelimit.New(ratelimit.Config{Name: "users", Limit: ratelimit.PerHour(1)}))
	chain := ratelimit.Chain{{Limiter: users, Key: "ann"}}
	ctx := context.Background()
	_, _ = chain.Wait(ctx, 1)
	_, err := chain.Wait(ctx, 1)
	fmt.Println(errors.Is(err, ratelimit.ErrLimited))
	// Output: true
}
