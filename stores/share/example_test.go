package share_test

import (
	"context"
	"fmt"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/ratelimittest"
	"github.com/gresil/gresil/stores/share"
)

// While the store is unavailable, each of two processes has half of the limit. In a service, use a store that several
// processes share, for example that of redisstore.
func ExampleNew() {
	memory := &ratelimittest.Memory{}
	inner := &ratelimittest.Failing{Store: memory} // it can be made unavailable
	store := core.Must(share.New(inner, share.Config{Instances: 2}))
	defer func() { _ = store.Close() }()

	l := core.Must(ratelimit.New(ratelimit.Config{
		Name: "api", Limit: ratelimit.PerHour(6), Store: store, OnStoreError: ratelimit.Local,
	}))
	take := func() {
		r, err := l.Take(context.Background(), "customer 7", 1)
		fmt.Println(r.Allowed, r.Remaining, "of", r.Limit, err)
	}
	take()
	take()
	inner.Down()
	take() // four permits are left, two of them for this process
	take()
	take()
	// Output:
	// true 5 of 6 <nil>
	// true 4 of 6 <nil>
	// true 1 of 3 <nil>
	// true 0 of 3 <nil>
	// false 0 of 3 <nil>
}
