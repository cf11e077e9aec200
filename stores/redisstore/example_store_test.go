package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/cooldown"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/redistest"
	"github.com/gresil/gresil/stores/redisstore"
)

func Example() {
	addr, stop := redistest.ForExample()
	defer stop()
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer func() { _ = client.Close() }()

	// Two instances of a service, which share a limit.
	limiter := func() *ratelimit.Limiter {
		store := core.Must(redisstore.New(client, redisstore.Config{Timeout: time.Second}))
		return core.Must(ratelimit.New(ratelimit.Config{Name: "api", Limit: ratelimit.PerHour(3), Store: store, OnStoreError: ratelimit.Deny}))
	}
	for _, l := range []*ratelimit.Limiter{limiter(), limiter()} {
		for range 2 {
			r, err := l.Take(context.Background(), "customer 7", 1)
			fmt.Println(r.Allowed, r.Remaining, err)
		}
	}
	// Output:
	// true 2 <nil>
	// true 1 <nil>
	// true 0 <nil>
	// false 0 <nil>
}

// A pause that one process is asked for holds the calls of all.
func ExampleStore_OpenCooldown() {
	addr, stop := redistest.ForExample()
	defer stop()
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer func() { _ = client.Close() }()

	// Two instances of a service, which call the same vendor.
	instance := func() *cooldown.Cooldown {
		store := core.Must(redisstore.New(client, redisstore.Config{Timeout: time.Second}))
		return core.Must(cooldown.New(cooldown.Config{Name: "vendor", Store: store, MaxQueue: -1}))
	}
	first, second := instance(), instance()
	ctx := context.Background()
	call, err := first.Acquire(ctx, "account 7")
	fmt.Println(err)
	call.Hold(time.Minute) // as the vendor asks
	call.Done(core.Ignored)
	for { // until the message has arrived
		if _, held := second.Until("account 7"); held {
			break
		}
		_, _ = second.Acquire(ctx, "another account")
		time.Sleep(time.Millisecond)
	}
	_, err = second.Acquire(ctx, "account 7")
	wait, _ := core.RetryAfter(err)
	fmt.Println(errors.Is(err, cooldown.ErrHeld), wait.Round(time.Minute))
	// Output:
	// <nil>
	// true 1m0s
}

func ExampleConfig_coalesced() {
	addr, stop := redistest.ForExample()
	defer stop()
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer func() { _ = client.Close() }()

	store, err := redisstore.New(client, redisstore.Config{
		Mode:     redisstore.Coalesced, // decisions that come at once go out together
		Timeout:  time.Second,
		HashKeys: true, // they are tokens
	})
	if err != nil {
		panic(err)
	}
	defer func() { _ = store.Close() }()
	fmt.Println(store.Check(context.Background()))
	l := core.Must(ratelimit.New(ratelimit.Config{Name: "tokens", Store: store, Limit: ratelimit.TokenBucket(10, time.Second, 20)}))
	r, err := l.TakeAtMost(context.Background(), "secret", 50)
	fmt.Println(r.Permits, err)
	// Output:
	// <nil>
	// 20 <nil>
}

// The counters show how many decisions went into a request, and whether the server is
// available.
func ExampleStore_Stats() {
	addr, stop := redistest.ForExample()
	defer stop()
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer func() { _ = client.Close() }()

	store := core.Must(redisstore.New(client, redisstore.Config{Timeout: time.Second}))
	defer func() { _ = store.Close() }()
	l := core.Must(ratelimit.New(ratelimit.Config{Name: "api", Store: store}))
	for range 3 {
		_, _ = l.Take(context.Background(), "ann", 1)
	}
	s := store.Stats()
	fmt.Println(s.Decided, s.Sent, s.RoundTrips, s.Unavailable)
	// Output: 3 3 3 false
}
