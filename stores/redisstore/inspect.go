package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// oldest is the first version of Redis that has all that is needed.
const oldest = 7

// What inspected says.
const (
	notInspected = iota
	inspecting
	inspectedFit
	inspectedUnfit
)

// Check asks the server whether it can be used: whether it can be reached, takes the
// password, and is not too old ([ErrUnfit]). It tells Warn what is wrong with it otherwise.
// It is not necessary: the first decision asks the same. Unlike a decision it goes on until ctx
// ends, or for five seconds, and so can tell why a server cannot be reached.
func (s *Store) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	problem, err := s.ask(ctx)
	if problem != nil {
		s.warn(problem)
	}
	return err
}

// warn calls Warn.
func (s *Store) warn(problem error) {
	defer func() { _ = recover() }() // there is nobody to tell
	s.cfg.warn(problem)
}

// unfitFor is how long a server that cannot be used is not asked again.
const unfitFor = 5 * time.Second

const checkTimeout = 5 * time.Second

// An info is the command INFO, which is sent once.
type info struct{ *redis.StringCmd }

// NoRetry is true.
func (info) NoRetry() bool { return true }

// inspect is Check, once. Who comes while somebody asks does not wait for it.
func (s *Store) inspect(ctx context.Context) error {
	switch s.inspected.Load() {
	case inspectedFit:
		return nil
	case inspectedUnfit:
		s.mu.Lock()
		unfit, fresh := s.unfit, time.Since(s.unfitAt) < unfitFor
		s.mu.Unlock()
		if fresh || !s.inspected.CompareAndSwap(inspectedUnfit, notInspected) {
			return unfit
		}
	}
	if !s.inspected.CompareAndSwap(notInspected, inspecting) {
		return nil
	}
	problem, _ := s.ask(ctx) // a server that does not answer is for the decision to find
	if problem != nil {
		go s.warn(problem) // which may do what it likes, as closing the store, for which nobody has to wait then
	}
	s.inspected.CompareAndSwap(inspecting, notInspected)
	if s.inspected.Load() == inspectedUnfit {
		return s.inspect(ctx)
	}
	return nil
}

// ask asks the server. A problem is what does not keep it from being used, told once.
func (s *Store) ask(ctx context.Context) (problem, err error) {
	cmd := info{redis.NewStringCmd(ctx, "info")}
	if err := s.client.Process(ctx, cmd); err != nil {
		if isServerError(err) && !transient(err) {
			s.inspected.Store(inspectedFit) // INFO is not allowed; a decision may be
		}
		return nil, explain(err)
	}
	field := func(name string) string {
		_, rest, _ := strings.Cut(cmd.Val(), "\n"+name+":")
		value, _, _ := strings.Cut(rest, "\n")
		return strings.TrimSpace(value)
	}
	version := field("redis_version")
	major, _, _ := strings.Cut(version, ".")
	if n, err := strconv.Atoi(major); err == nil && n < oldest {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.unfit = fmt.Errorf("%w: it is version %s, %d.0 or later is needed", ErrUnfit, version, oldest)
		s.unfitAt = time.Now()
		s.inspected.Store(inspectedUnfit)
		return nil, s.unfit
	}
	known := s.inspected.Swap(inspectedFit) == inspectedFit
	if policy := field("maxmemory_policy"); policy != "" && policy != "noeviction" && policy != "volatile-ttl" && !known {
		problem = fmt.Errorf("redisstore: maxmemory-policy %s drops keys that owe, whose limits are then passed: set noeviction or volatile-ttl", policy)
	}
	return problem, nil
}
