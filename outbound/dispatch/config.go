package dispatch

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/bulkhead"
	"github.com/gresil/gresil/core/cooldown"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/validate"
)

// Defaults and limits of a [Config].
const (
	defaultName        = "default"
	defaultCapacity    = 8
	defaultIdleTime    = 5 * time.Minute
	defaultDialTimeout = 30 * time.Second
	defaultAttempts    = 5
	defaultCooldown    = 15 * time.Second
	defaultMaxCooldown = 24 * time.Hour
	defaultPad         = 50 * time.Millisecond
	defaultMaxQueue    = 1 << 16

	mostCapacity = 1 << 20
	longestHold  = 365 * 24 * time.Hour
)

// Config configures a [Dispatcher] whose connections have keys of type K and are of type
// C. The zero value is ready to use: 8 calls, each with a zero C as its connection.
//
// A Config is a plain value: copy it to derive another one from it.
type Config[K comparable, C any] struct {
	// Name names the dispatcher: use that of the vendor. If empty, it is "default".
	Name string
	// Registry registers the dispatcher under the kind "dispatch" and its name. If nil,
	// it is not registered.
	Registry *core.Registry

	// Capacity is the number of connections that may be open over all keys, those being
	// dialed included. It is also the highest number of attempts in flight, and the
	// number at the start; each limit of the vendor halves that one, and it grows
	// slowly again. If zero, it is 8. It must not be
	// negative, nor above 1,048,576.
	Capacity int
	// Dial opens a connection. It runs in a goroutine of its own, so that a Dial that
	// ignores ctx does not block its caller; a connection that such a Dial returns too
	// late is closed. It must not send a call that the vendor counts. If nil, a
	// connection is the zero C: a place in Capacity.
	Dial func(ctx context.Context, key K) (C, error)
	// Close closes a connection. It is called once for each. If nil, nothing is done.
	Close func(key K, conn C)
	// Healthy reports whether an idle connection can be used again. If it cannot, it is
	// closed. If nil, every connection can.
	Healthy func(key K, conn C) bool
	// IdleTime is the time after which an idle connection is closed. If zero, it is 5
	// minutes. If negative, there is no limit.
	IdleTime time.Duration
	// DialTimeout is the longest time of a Dial, and for which one that ignores ctx keeps
	// its place in Capacity. If zero, it is 30 seconds. It must not be negative.
	DialTimeout time.Duration

	// Account returns the account of a key, for limits of [ScopeAccount]. If it is nil,
	// or returns "", such a limit holds the whole vendor.
	Account func(key K) string
	// Classify reports whether an error means that the vendor has refused a call because
	// of a limit. It is not called for an error of the context. If nil, [Classify] is used.
	Classify func(err error) (Limited, bool)
	// Attempts is the number of attempts of one call, or of one page of a stream, that
	// the vendor may refuse because of a limit. If zero, it is 5. It must not be negative.
	Attempts int
	// Cooldown is the pause if the vendor does not say how long it is. If zero, it is 15
	// seconds. It must not be negative.
	Cooldown time.Duration
	// MaxCooldown is the longest pause, without Pad; a longer one is cut to it. If zero, it
	// is 24 hours. It is at most 365 days.
	MaxCooldown time.Duration
	// Pad is added to each pause, for clocks that differ. If zero, it is 50 milliseconds.
	// If negative, nothing is added. It is cut so that MaxCooldown and Pad are at most 365
	// days together.
	Pad time.Duration
	// MaxQueue is the number of calls that can be accepted beyond Capacity; one more is
	// rejected with [ErrFull]. If zero, it is 65,536. If negative, there is none.
	MaxQueue int
	// Limiter is a limit that is kept in advance, for all calls together: each attempt
	// takes one permit, with Name as its key. Its MaxWait applies. Use a limit that
	// spaces the calls, such as TokenBucket(90, time.Second, 1), as calls that are sent
	// together arrive together. If nil, there is none.
	Limiter *ratelimit.Limiter

	// Store shares the cooldowns with the dispatchers of the Name in other processes, as that
	// of stores/redisstore. It must be usable as long as the dispatcher, which does not close
	// it. If nil, each process has its own cooldowns.
	Store cooldown.Store

	// Hooks observe the dispatcher. Any of them may be nil.
	Hooks Hooks
}

// Validate reports every field that cannot be used, joined. Each is a
// [*core.ConfigError].
func (c Config[K, C]) Validate() error {
	check := validate.Of("dispatch.Config")
	check.That(c.Capacity >= 0 && c.Capacity <= mostCapacity, "Capacity", c.Capacity, fmt.Sprintf("must be > 0 and <= %d (0 means %d)", mostCapacity, defaultCapacity))
	check.That(c.DialTimeout >= 0, "DialTimeout", c.DialTimeout, fmt.Sprintf("must be > 0 (0 means %v)", defaultDialTimeout))
	check.That(c.Attempts >= 0, "Attempts", c.Attempts, fmt.Sprintf("must be > 0 (0 means %d)", defaultAttempts))
	check.That(c.Cooldown >= 0, "Cooldown", c.Cooldown, fmt.Sprintf("must be > 0 (0 means %v)", defaultCooldown))
	check.That(c.MaxCooldown >= 0 && c.MaxCooldown <= longestHold, "MaxCooldown", c.MaxCooldown, fmt.Sprintf("must be > 0 and <= %v (0 means %v)", longestHold, defaultMaxCooldown))
	check.Part(cooldown.Config{Store: c.Store}.Validate(), "cooldown.Config.")
	return check.Err()
}

// resolved returns c with its defaults.
func resolved[K comparable, C any](c *Config[K, C]) Config[K, C] {
	r := *c
	r.Capacity = cmp.Or(c.Capacity, defaultCapacity)
	r.IdleTime = cmp.Or(c.IdleTime, defaultIdleTime)
	r.DialTimeout = cmp.Or(c.DialTimeout, defaultDialTimeout)
	r.Attempts = cmp.Or(c.Attempts, defaultAttempts)
	r.Cooldown = cmp.Or(c.Cooldown, defaultCooldown)
	r.MaxCooldown = cmp.Or(c.MaxCooldown, defaultMaxCooldown)
	r.Pad = min(max(0, cmp.Or(c.Pad, defaultPad)), longestHold-r.MaxCooldown)
	r.MaxQueue = cmp.Or(c.MaxQueue, defaultMaxQueue)
	if r.Classify == nil {
		r.Classify = Classify
	}
	return r
}

// probeTimeout is how long an attempt after a cooldown keeps others from being sent.
const probeTimeout = time.Minute

// cooldown returns the Config of the cooldowns of a scope; calls wait for as long as their
// context.
func (c *Config[K, C]) cooldown(scope string) cooldown.Config {
	return cooldown.Config{Name: cmp.Or(c.Name, defaultName) + scope, Store: c.Store, MaxHold: c.MaxCooldown + c.Pad, MaxWait: -1, MaxQueue: 1 << 30, ProbeTimeout: probeTimeout, Keep: true}
}

// inFlight returns the Config of the bound on attempts in flight.
func (c *Config[K, C]) inFlight() bulkhead.Config {
	return bulkhead.Config{Name: c.Name, Limit: c.Capacity, Backoff: 0.5, MaxWait: -1, MaxQueue: 1 << 30}
}
