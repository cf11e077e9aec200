package redisstore

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gresil/gresil/internal/text"
)

// oldest is the first version of Redis that has all that is needed.
const oldest = 7

// An inspection is the outcome of an inspection of the server; nil if there was none.
type inspection struct {
	unfit error // if it cannot be used
	at    time.Time
}

func (i *inspection) fit() bool { return i != nil && i.unfit == nil }

// Check reports whether the server can be used: whether it can be reached, accepts the password,
// and is not too old ([ErrUnfit]). It measures the round trip, and returns an error if
// [Config].Timeout is less than twice as long: decisions work as long as Timeout is longer, but
// fail if the network or the server takes a moment more. Other problems of the server are reported
// to Warn.
//
// Check is not necessary: the first connection inspects the server too, but does not measure.
// Unlike a decision, Check runs until ctx ends, or for [Config].DialTimeout, so it can report why
// a server cannot be reached.
func (s *Store) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.dialTimeout())
	defer cancel()
	_, err := inTime(ctx, s, func(ctx context.Context) (any, error) { return nil, s.check(ctx) })
	return err
}

func (s *Store) check(ctx context.Context) error {
	to := s.client
	if c, ok := s.client.(*redis.ClusterClient); ok {
		master, err := c.MasterForKey(ctx, s.cfg.prefix())
		if err != nil {
			return explain(err)
		}
		to = master
	}
	problem, err := s.ask(ctx, to)
	if problem != nil {
		s.warn(problem)
	}
	if err != nil {
		return explain(err)
	}
	return s.distance(ctx, to)
}

// distance returns an error if the server is too far away for Timeout.
func (s *Store) distance(ctx context.Context, to redis.UniversalClient) error {
	trip := s.cfg.dialTimeout()
	for range 3 {
		took, err := ping(ctx, to)
		if err != nil {
			return explain(err)
		}
		trip = min(trip, took)
	}
	if timeout := s.cfg.timeout(); timeout < 2*trip {
		return fmt.Errorf("redisstore: the Timeout of %v is too near to the round trip to the server, %s: take at least twice as much", timeout, text.About(trip))
	}
	return nil
}

// warn calls Warn.
func (s *Store) warn(problem error) {
	defer func() { _ = recover() }() // a panic of Warn has no caller to report to
	if s.cfg.Warn == nil {
		slog.Warn(problem.Error()) //nolint:sloglint // what nobody asked for should be seen all the same
		return
	}
	s.cfg.Warn(problem)
}

// unfitFor is the time for which a server that cannot be used is not inspected again.
const unfitFor = 5 * time.Second

// usable returns the error for a server that was found unfit recently. After unfitFor the next
// connection inspects it again.
func (s *Store) usable() error {
	found := s.inspected.Load()
	if found == nil || found.unfit == nil {
		return nil
	}
	if time.Since(found.at) < unfitFor {
		return unsent(found.unfit)
	}
	if s.inspected.CompareAndSwap(found, nil) {
		for _, n := range s.allNodes() {
			n.doubt()
		}
	}
	return nil
}

// ask inspects the server. A problem does not prevent its use, and is returned once.
func (s *Store) ask(ctx context.Context, to redis.UniversalClient) (problem, err error) {
	cmd := newSingle(ctx, "info")
	if err := to.Process(ctx, cmd); err != nil {
		if isServerError(err) && !transient(err) {
			s.inspected.Store(&inspection{}) // INFO is not allowed; decisions might be
		}
		return nil, err
	}
	field := func(name string) string {
		_, rest, _ := strings.Cut(cmd.Val(), "\n"+name+":")
		value, _, _ := strings.Cut(rest, "\n")
		return strings.TrimSpace(value)
	}
	version := field("redis_version")
	major, _, _ := strings.Cut(version, ".")
	if n, err := strconv.Atoi(major); err == nil && n < oldest {
		unfit := fmt.Errorf("%w: it is version %s, %d.0 or later is needed", ErrUnfit, version, oldest)
		s.inspected.Store(&inspection{unfit, time.Now()})
		return nil, unfit
	}
	known := s.inspected.Swap(&inspection{}).fit()
	if policy := field("maxmemory_policy"); policy != "" && policy != "noeviction" && policy != "volatile-ttl" && !known {
		problem = fmt.Errorf("redisstore: maxmemory-policy %s drops keys that owe, whose limits are then passed: set noeviction or volatile-ttl", policy)
	}
	return problem, nil
}
