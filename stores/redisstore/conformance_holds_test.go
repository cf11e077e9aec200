package redisstore

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/gresil/gresil/core/cooldown"
	"github.com/gresil/gresil/internal/cooldowntest"
)

// TestConformanceOfHolds: the suite for stores of cooldowns, with one server, without messages, with
// hashed keys, a Cluster, a Ring and a client of another type.
func TestConformanceOfHolds(t *testing.T) {
	t.Parallel()
	timely := func(o *redis.Options) { o.ContextTimeoutEnabled = true }
	for name, c := range map[string]struct {
		cfg    Config
		client func(t *testing.T) redis.UniversalClient
	}{
		"one server": {Config{}, func(t *testing.T) redis.UniversalClient { t.Helper(); return startServer(t).client(t, timely) }},
		"hashed":     {Config{HashKeys: true}, func(t *testing.T) redis.UniversalClient { t.Helper(); return startServer(t).client(t) }},
		"no messages": {Config{}, func(t *testing.T) redis.UniversalClient {
			t.Helper()
			srv := startServer(t)
			deaf(t, srv)
			return srv.client(t)
		}},
		"hashed, no messages": {Config{HashKeys: true}, func(t *testing.T) redis.UniversalClient {
			t.Helper()
			srv := startServer(t)
			deaf(t, srv)
			return srv.client(t)
		}},
		"cluster": {Config{}, func(t *testing.T) redis.UniversalClient {
			t.Helper()
			_, client := startCluster(t, nil)
			return client
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := c.client(t)
			a, b := newStore(t, client, c.cfg), newStore(t, client, c.cfg)
			cooldowntest.Run(t, func(*testing.T) (cooldown.Store, cooldown.Store) { return a, b })
		})
	}
}

// deaf keeps clients of a server from subscribing.
func deaf(t *testing.T, srv server) {
	t.Helper()
	if _, err := srv.Do("acl", "setuser", "default", "-subscribe"); err != nil {
		t.Fatal(err)
	}
}
