package redisstore

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gresil/gresil/internal/text"
)

// oldest is the first version of Redis that has everything that the store needs.
const oldest = 7

// Check returns an error if the server cannot be used: if it cannot be reached, refuses the password, is too old ([ErrUnfit]), or evicts
// the usage of keys when its memory is full. It also measures the round trip, and returns an error if [Config].Timeout is less than twice
// as long. With a shorter Timeout, decisions work while it is longer than the round trip, but fail when the network or the server is a
// little slower.
//
// Calling Check is optional, and it changes nothing. It waits until ctx ends, so that it can report why a server cannot be reached.
func (s *Store) Check(ctx context.Context) error {
	to := s.client
	if c, ok := s.client.(*redis.ClusterClient); ok {
		master, err := c.MasterForKey(ctx, s.cfg.prefix())
		if err != nil {
			return explain(err, false)
		}
		to = master
	}
	info, err := to.Info(ctx).Result()
	if err != nil {
		return explain(err, false)
	}
	field := func(name string) string {
		_, rest, _ := strings.Cut(info, "\n"+name+":")
		value, _, _ := strings.Cut(rest, "\n")
		return strings.TrimSpace(value)
	}
	version := field("redis_version")
	major, _, _ := strings.Cut(version, ".")
	if n, err := strconv.Atoi(major); err == nil && n < oldest {
		return fmt.Errorf("%w: it is version %s, %d.0 or later is needed", ErrUnfit, version, oldest)
	}
	switch policy := field("maxmemory_policy"); policy {
	case "", "noeviction", "volatile-ttl":
		return s.distance(ctx, to)
	default:
		return fmt.Errorf("redisstore: maxmemory-policy %s evicts keys with usage, whose limits are then exceeded: "+
			"set noeviction or volatile-ttl", policy)
	}
}

// distance returns an error if the server is too far away for Timeout.
func (s *Store) distance(ctx context.Context, to redis.UniversalClient) error {
	trip := time.Duration(math.MaxInt64)
	for range 3 {
		began := time.Now()
		if err := to.Ping(ctx).Err(); err != nil && (!isServerError(err) || transient(err)) { // PING may not be allowed
			return explain(err, false)
		}
		trip = min(trip, time.Since(began))
	}
	if timeout := s.cfg.timeout(); timeout/2 < trip {
		return fmt.Errorf("redisstore: the Timeout of %v is too short for the round trip to the server, %s: set at least twice the round trip",
			timeout, text.About(trip))
	}
	return nil
}
