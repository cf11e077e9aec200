package denycache_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/redisserver"
	"github.com/gresil/gresil/stores/denycache"
	"github.com/gresil/gresil/stores/redisstore"
)

// A client that ignores refusals is refused without the server. In a registry the store is exported by
// package metrics; Stats are the same numbers.
func Example() {
	dir := core.Must(os.MkdirTemp("", "denycache"))
	defer func() { _ = os.RemoveAll(dir) }()
	server := core.Must(redisserver.Start(dir))
	defer server.Kill()
	client := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer func() { _ = client.Close() }()

	redisStore := core.Must(redisstore.New(client, redisstore.Config{Timeout: time.Second}))
	store := core.Must(denycache.New(redisStore, denycache.Config{
		Name:     "redis",
		Registry: &core.Registry{}, // that of the limiters
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
