package ratelimit

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/identity"
	"github.com/gresil/gresil/internal/validate"
)

const defaultName = "default"

// A FailurePolicy says what happens to an operation that the store cannot decide.
type FailurePolicy string

// The policies.
const (
	// Allow grants the permits of Take, TakeAtMost and Wait: while the store is unavailable, the service works without a limit.
	// The Result has Allowed, and its Limit is 0. Other operations return an error that matches ErrStore.
	Allow FailurePolicy = "allow"
	// Deny returns an error that matches ErrStore.
	Deny FailurePolicy = "deny"
	// Local decides with the share of this process. The Store must be one of stores/share.
	Local FailurePolicy = "local"
)

// Config configures a [Limiter]. The zero value is ready to use: 1000 permits a
// minute for each key, in memory.
//
// A Config is a plain value: copy it to derive another one from it.
type Config struct {
	// Name is the name of the limiter in errors, in the registry, and of its table in the store.
	// If empty, it is "default". Limiters with one name in one Store share the usage of their keys, in
	// this process and in others. Several limiters without a Name need a Store each: New refuses a
	// second one.
	Name string
	// Registry is where the limiter is registered under its name, as kind
	// "ratelimit". If nil, nowhere.
	Registry *core.Registry
	// Limit is the limit of each key. The zero Limit is PerMinute(1000).
	Limit Limit
	// Limits are further limits, by name, for [Limiter.Under] and for the routes, layers and tiers of plugins/ratelimit. A
	// name has 1 to 64 letters, digits or any of "-._".
	Limits map[string]Limit
	// MaxWait is the longest time that Wait waits; a longer wait is refused at once. If zero, it
	// is 10 seconds. If negative, only the deadline of the context limits the wait.
	MaxWait time.Duration
	// MaxQueue is the number of permits that the waiters of one key can wait for together; a
	// waiter that exceeds it is refused. If zero, twice the capacity of the limit, and at least
	// 1000. If negative, there is no queue: every wait is refused. With a Store it applies to the waiters of this process.
	MaxQueue int64
	// MaxKeys is the number of keys that are kept in memory: see [NewMemory]. It must
	// be zero if there is a Store.
	MaxKeys int
	// Store holds the state of the keys. If nil, the limiter has its own store in memory. The
	// limiter does not close a Store that is set here.
	Store Store
	// OnStoreError applies when the store fails. The zero value is [Allow]. For [Local], wrap
	// the Store in share.New of stores/share.
	OnStoreError FailurePolicy
}

// Validate reports every field that cannot be used, joined.
func (c Config) Validate() error {
	check := validate.Of("ratelimit.Config")
	check.Part(c.Limit.check("ratelimit.Config.Limit"))
	for _, name := range slices.Sorted(maps.Keys(c.Limits)) {
		check.That(isName(name), "Limits", strconv.Quote(name), `must be named with 1 to 64 letters, digits or any of "-._"`)
		check.Part(c.Limits[name].check(fmt.Sprintf("ratelimit.Config.Limits[%q]", name)))
	}
	if c.Store != nil {
		check.That(c.MaxKeys == 0, "MaxKeys", c.MaxKeys, "must be 0 with a Store of your own, which has its own bound")
	} else {
		checkMaxKeys(check, "MaxKeys", c.MaxKeys)
	}
	check.That(c.Store == nil || !identity.Missing(c.Store), "Store", "a nil pointer", "must be a store, or nil for state in memory")
	known := []FailurePolicy{"", Allow, Deny, Local}
	check.That(slices.Contains(known, c.OnStoreError), "OnStoreError", c.OnStoreError, "must be allow, deny or local")
	return check.Err()
}

func isName(name string) bool {
	return len(name) >= 1 && len(name) <= 64 && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-._", r)
	})
}

// room returns the number of permits that waiters can wait for.
func (c Config) room(capacity int64) int64 {
	switch {
	case c.MaxQueue < 0:
		return 0
	case c.MaxQueue == 0:
		return max(1000, 2*capacity)
	}
	return c.MaxQueue
}
