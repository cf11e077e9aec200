package redisstore_test

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/stores/redisstore"
)

// Who keeps asking after a refusal is refused without the server. In a registry the store is
// exported by package metrics; Stats are the same numbers.
func ExampleStore_Stats() {
	addr, stop := serverForExample()
	defer stop()
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer func() { _ = client.Close() }()

	store := core.Must(redisstore.New(client, redisstore.Config{
		Name:      "redis",
		Registry:  &core.Registry{}, // that of the limiters
		Timeout:   time.Second,
		DenyCache: 10_000,
	}))
	defer func() { _ = store.Close() }()
	l := core.Must(ratelimit.New(ratelimit.Config{Name: "login", Store: store, Limit: ratelimit.PerHour(1)}))
	for range 1000 {
		_ = core.Must(l.Take(context.Background(), "attacker", 1))
	}
	s := store.Stats()
	fmt.Println(s.Decided+s.Denied, s.Denied > 900, s.Unavailable)
	// Output: 1000 true false
}
