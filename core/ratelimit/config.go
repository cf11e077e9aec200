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
	"github.com/gresil/gresil/internal/limits/memory"
	"github.com/gresil/gresil/internal/validate"
)

// A FailurePolicy says what happens to an operation if the store fails to decide it.
type FailurePolicy string

// The policies.
const (
	// Allow lets Take, TakeAtMost, Wait and Reserve succeed: while the store is unavailable, the service works without a limit. In the Result,
	// Allowed is true and Limit is 0. Other operations return an error that matches ErrStore.
	Allow FailurePolicy = "allow"
	// Deny returns an error that matches ErrStore.
	Deny FailurePolicy = "deny"
	// Local decides with the share of this process. The Store must be one of stores/share.
	Local FailurePolicy = "local"
)

// Config configures a [Limiter]. The zero value is useful: 1,000 permits a minute for each key, in memory.
//
// A Config is a plain value: copy it to derive another one from it.
type Config struct {
	// Name names the limiter in errors, in the registry and in the store. If empty, it is "default". Limiters with the
	// same Name in the same Store share their keys, in this process and in others. With a Store, the Name is required.
	Name string
	// Registry registers the limiter under the kind "ratelimit" and its name. If nil, it is not registered.
	Registry *core.Registry

	// Limit is the limit of each key. The zero Limit is PerMinute(1000).
	Limit Limit
	// Limits are further limits, by name, for [Limiter.Under] and for the routes, layers and tiers of plugins/ratelimit. A
	// name has 1 to 64 letters, digits or any of "-._". It can be nil.
	Limits map[string]Limit

	// MaxWait is the longest time that Wait waits. A longer wait is refused at once. If zero, it is 10 seconds. If negative,
	// only the context limits the wait.
	MaxWait time.Duration
	// MaxQueue is the highest total of permits that the waiters of one key wait for, in this process. A wait that would exceed it is refused
	// at once. If zero, it is twice the capacity of the limit, at least 1,000. If negative, every wait is refused.
	MaxQueue int64

	// MaxKeys is the number of keys that are kept in memory. Above it, the one of 16 keys with the least usage is evicted.
	// If it returns, that usage is charged, with its reservations as one capacity. If zero, it is 1,048,576. It must be
	// zero with a Store.
	MaxKeys int
	// Store keeps the keys: see stores/redisstore and [NewStore]. If nil, they are in the memory of this process. The
	// limiter does not close the Store.
	Store Store
	// OnStoreError says what happens to an operation if the Store fails to decide it. If empty, it is [Allow].
	OnStoreError FailurePolicy
}

// Validate reports every field that cannot be used, joined. Each is a *core.ConfigError.
func (c Config) Validate() error {
	check := validate.Of("ratelimit.Config")
	check.Part(c.Limit.check("ratelimit.Config.Limit"))
	for _, name := range slices.Sorted(maps.Keys(c.Limits)) {
		check.That(isName(name), "Limits", strconv.Quote(name), `must be named with 1 to 64 letters, digits or any of "-._"`)
		check.Part(c.Limits[name].check(fmt.Sprintf("ratelimit.Config.Limits[%q]", name)))
	}
	if c.Store != nil {
		check.That(c.Name != "", "Name", c.Name, "must be given with a Store: limiters of one name share their keys there")
		check.That(c.MaxKeys == 0, "MaxKeys", c.MaxKeys, "must be 0 with a Store of your own, which has its own bound")
	} else {
		check.That(c.MaxKeys >= 0 && c.MaxKeys <= memory.MaxMaxKeys, "MaxKeys", c.MaxKeys,
			fmt.Sprintf("must be 0 to %d (0 means %d)", memory.MaxMaxKeys, memory.DefaultMaxKeys))
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
