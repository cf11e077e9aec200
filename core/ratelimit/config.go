package ratelimit

import (
	"errors"
	"fmt"
	"time"

	"github.com/gresil/gresil/core"
)

// Defaults of a [Config].
const (
	// DefaultName is the name of a limiter that is given none.
	DefaultName = "default"
	// DefaultMaxWait is how long Wait waits at most when nothing is said.
	DefaultMaxWait = 10 * time.Second
)

// FailurePolicy says what happens to a call when the store cannot decide.
type FailurePolicy uint8

const (
	// Allow lets Take, TakeAtMost and Wait pass: a store that is away takes the
	// limit with it, not the service. The Result is Allowed and all else in it is
	// zero, Limit too. Other operations return a [*StoreError].
	Allow FailurePolicy = iota
	// Deny returns a [*StoreError].
	Deny
	// Local lets this process decide by itself, with its share of the limit: see
	// [LocalTable] for what a store has to offer, and the store for what it promises.
	// The Result is one of the share. What cannot be decided so either, as the Refund
	// of a take by the store, is a [*StoreError]. Reset forgets what is known here, and
	// not what the store has. A store in memory is never away, and needs no share.
	Local
)

// String returns "allow", "deny" or "local".
func (p FailurePolicy) String() string {
	switch p {
	case Allow:
		return "allow"
	case Deny:
		return "deny"
	case Local:
		return "local"
	}
	return fmt.Sprintf("FailurePolicy(%d)", uint8(p))
}

// Config configures a [Limiter]. The zero value is ready to use: 1000 permits a
// minute for each key, in memory.
//
// A Config is a plain value: copy it to derive another one from it.
type Config struct {
	// Name is the name of the limiter: in errors, in the registry, and of its
	// table in the store. If empty, DefaultName. Limiters of one name in one Store
	// share what their keys have taken, in this process and in others. Several
	// limiters without a Name need a Store each: New refuses a second one.
	Name string
	// Registry is where the limiter is registered under its name, as kind
	// "ratelimit". If nil, nowhere.
	Registry *core.Registry
	// Limit is what each key may take. The zero Limit is PerMinute(1000).
	Limit Limit
	// MaxWait is how long Wait waits at most; what takes longer is refused at
	// once. If zero, DefaultMaxWait. If negative, there is no limit but the
	// deadline of the context.
	MaxWait time.Duration
	// MaxQueue is how many permits may be waited for at a time, for each key: who
	// would be above it is refused. If zero, twice the capacity of the limit, and at
	// least 1000. If negative, nobody waits. A store that is not in memory has
	// no queue but its reservations, which MaxWait bounds; it must be zero there.
	MaxQueue int64
	// Order is the order in which those who wait are served. The zero value is
	// [OldestFirst], the only one for a store that is not in memory.
	Order QueueOrder
	// MaxKeys is how many keys are held in memory at most, and for how long: see
	// [MemoryConfig.MaxKeys]. It must be zero when there is a Store.
	MaxKeys int
	// Store holds the state of the keys. If nil, the limiter has one of its own
	// in memory. A given one is not closed by the limiter.
	Store Store
	// OnStoreError says what happens when the store fails. The zero value is
	// [Allow]. For [Local] the tables of the Store must be a [LocalTable].
	OnStoreError FailurePolicy
	// Hooks observe the limiter.
	Hooks Hooks
}

// With returns a copy of c changed by f; c itself is unchanged.
func (c Config) With(f func(*Config)) Config { f(&c); return c }

// Validate reports every field that cannot be used, joined.
func (c Config) Validate() error {
	errs := []error{c.Limit.Validate()}
	bad := func(field string, value any, reason string) {
		errs = append(errs, &core.ConfigError{Field: "ratelimit.Config." + field, Value: value, Reason: reason})
	}
	switch {
	case c.Store != nil && c.MaxKeys != 0:
		bad("MaxKeys", c.MaxKeys, "must be 0 with a Store of your own, which has its own bound")
	case (MemoryConfig{MaxKeys: c.MaxKeys}).Validate() != nil:
		bad("MaxKeys", c.MaxKeys, fmt.Sprintf("must be 0 to %d (0 means %d)", MaxMaxKeys, DefaultMaxKeys))
	}
	_, memory := c.Store.(*Memory)
	remote := c.Store != nil && !memory
	if remote && c.MaxQueue != 0 {
		bad("MaxQueue", c.MaxQueue, "must be 0 with a Store that is not in memory, which has no queue")
	}
	switch {
	case c.Order > NewestFirst:
		bad("Order", c.Order, "must be OldestFirst or NewestFirst")
	case remote && c.Order == NewestFirst:
		bad("Order", c.Order, "must be OldestFirst with a Store that is not in memory")
	}
	if c.OnStoreError > Local {
		bad("OnStoreError", c.OnStoreError, "must be Allow, Deny or Local")
	}
	return errors.Join(errs...)
}

func (c Config) name() string {
	if c.Name != "" {
		return c.Name
	}
	return DefaultName
}

func (c Config) maxWait() time.Duration {
	switch {
	case c.MaxWait < 0:
		return 1<<63 - 1
	case c.MaxWait == 0:
		return DefaultMaxWait
	}
	return c.MaxWait
}

// room is how many permits may be waited for.
func (c Config) room(capacity int64) int64 {
	switch {
	case c.MaxQueue < 0:
		return 0
	case c.MaxQueue == 0:
		return max(1000, 2*capacity)
	}
	return c.MaxQueue
}
