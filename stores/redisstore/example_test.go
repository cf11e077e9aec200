package redisstore_test

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gresil/gresil/core"
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

func ExampleConfig_coalesced() {
	addr, stop := redistest.ForExample()
	defer stop()
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer func() { _ = client.Close() }()

	store, err := redisstore.New(client, redisstore.Config{
		Mode:     redisstore.Coalesced, // concurrent decisions are sent together
		Timeout:  time.Second,
		HashKeys: true, // the keys are tokens
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

func ExampleConfig_lease() {
	addr, stop := redistest.ForExample()
	defer stop()
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer func() { _ = client.Close() }()

	store := core.Must(redisstore.New(client, redisstore.Config{
		Mode:     redisstore.Lease,
		MaxLease: 50, // permits of a busy key that this process holds at most
		Timeout:  time.Second,
	}))
	tenant := core.Must(ratelimit.New(ratelimit.Config{Name: "tenant", Limit: ratelimit.PerHour(10_000), Store: store, OnStoreError: ratelimit.Deny}))
	granted := 0
	for range 1000 {
		r, err := tenant.Take(context.Background(), "customer 7", 1)
		if err == nil && r.Allowed {
			granted++
		}
	}
	fmt.Println(granted, store.Stats().RoundTrips < 100)
	fmt.Println("in any hour, at most 10000 +", store.Stats().Ahead)
	_ = store.Close() // gives back what was taken in advance

	again := core.Must(redisstore.New(client, redisstore.Config{Timeout: time.Second}))
	tenant = core.Must(ratelimit.New(ratelimit.Config{Name: "tenant", Limit: ratelimit.PerHour(10_000), Store: again, OnStoreError: ratelimit.Deny}))
	r, err := tenant.Peek(context.Background(), "customer 7")
	fmt.Println(r.Remaining, err)
	// Output:
	// 1000 true
	// in any hour, at most 10000 + 50
	// 9000 <nil>
}
