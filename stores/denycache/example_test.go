package denycache_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/ratelimittest"
	"github.com/gresil/gresil/stores/denycache"
)

// A client that ignores refusals is refused without the store, even while the store is unavailable. In a service, use a
// store over a network, for example that of redisstore.
func ExampleNew() {
	memory := &ratelimittest.Memory{}
	inner := &ratelimittest.Failing{Store: memory} // it can be made unavailable
	store := core.Must(denycache.New(inner, denycache.Config{}))
	defer func() { _ = store.Close() }()

	l := core.Must(ratelimit.New(ratelimit.Config{
		Name: "login", Limit: ratelimit.PerHour(1), Store: store, OnStoreError: ratelimit.Deny,
	}))
	take := func(key string) {
		r, err := l.Take(context.Background(), key, 1)
		fmt.Println(r.Allowed, errors.Is(err, ratelimit.ErrStore))
	}
	take("attacker")
	take("attacker") // the store refuses
	inner.Down()
	take("attacker") // the cache refuses
	take("customer") // the store is needed
	// Output:
	// true false
	// false false
	// false false
	// false true
}
