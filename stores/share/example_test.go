package share_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/redisserver"
	"github.com/gresil/gresil/stores/redisstore"
	"github.com/gresil/gresil/stores/share"
)

func Example() {
	dir := core.Must(os.MkdirTemp("", "share"))
	defer func() { _ = os.RemoveAll(dir) }()
	server := core.Must(redisserver.Start(dir))
	client := redis.NewClient(&redis.Options{Addr: server.Addr, DialerRetries: 1})
	defer func() { _ = client.Close() }()
	redisStore := core.Must(redisstore.New(client, redisstore.Config{Timeout: time.Second}))
	store := core.Must(share.New(redisStore, share.Config{}))
	defer func() { _ = store.Close() }()

	// While the server is unavailable, each of n instances has a share of 4/n. This one is alone.
	l := core.Must(ratelimit.New(ratelimit.Config{Name: "api", Limit: ratelimit.PerHour(4), Store: store, OnStoreError: ratelimit.Local}))
	take := func() {
		r, err := l.Take(context.Background(), "customer 7", 1)
		fmt.Println(r.Allowed, r.Remaining, err)
	}
	take()
	take()
	server.Kill()
	take() // from what was known
	take()
	take()
	fmt.Println(l.Stats().StoreErrors)
	// Output:
	// true 3 <nil>
	// true 2 <nil>
	// true 1 <nil>
	// true 0 <nil>
	// false 0 <nil>
	// 3
}
