package bulkhead

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/validate"
)

const mostPermits = 1<<31 - 1

// Config configures a [Bulkhead]. The zero value is useful: 25 calls in flight for each key.
//
// A Config is a plain value: copy it to derive another one from it.
type Config struct {
	// Name names the bulkhead in errors and in the registry. If empty, it is "default".
	Name string
	// Registry registers the bulkhead under the kind "bulkhead" and its name. If nil, it is not registered.
	Registry *core.Registry

	// Limit is the number of permits that the calls of a key can hold at once. If zero, it is 25. It must not be negative
	// or above 2,147,483,647.
	Limit int
	// Backoff adapts the limit of a key: each overload multiplies it by Backoff, and successes raise it by 1 up to Limit.
	// If zero, the limit is fixed. Otherwise Backoff is between 0 and 1, such as 0.5.
	Backoff float64
	// MinLimit is the lowest value to which Backoff lowers the limit. If zero, it is 1. It must not be above Limit.
	MinLimit int

	// MaxWait is the longest wait for permits. If zero, it is 10 seconds. If negative, only the context limits the wait.
	MaxWait time.Duration
	// MaxQueue is the number of calls of a key that can wait. If zero, it is 1,000. If negative, no call waits.
	MaxQueue int
	// NewestFirst admits the newest waiter first. If the queue is full, it rejects the oldest waiter, whose client has probably given up.
	NewestFirst bool
	// MaxKeys is the number of keys, not counting the empty one. If zero, it is 65,536. Above it, an idle key is evicted for a new one; if
	// none is found, the call is rejected.
	MaxKeys int

	// Classify returns the outcome of an operation of [Do], for Backoff. If nil, an error is a core.Failure, except for rejections and for
	// calls that the caller has canceled, which are core.Ignored.
	Classify func(ctx context.Context, result any, err error) core.Outcome
}

// Validate reports every field that cannot be used, joined. Each is a [*core.ConfigError].
func (c Config) Validate() error {
	check := validate.Of("bulkhead.Config")
	check.That(c.Limit >= 0 && c.Limit <= mostPermits, "Limit", c.Limit,
		fmt.Sprintf("must be > 0 and <= %d (0 means 25)", mostPermits))
	check.That(c.Backoff >= 0 && c.Backoff < 1, "Backoff", c.Backoff, "must be > 0 and < 1 (0 means that the limit is fixed)")
	check.That(c.MinLimit >= 0 && c.MinLimit <= max(c.limit(), 1), "MinLimit", c.MinLimit, "must be > 0 and <= Limit (0 means 1)")
	check.That(c.MaxKeys >= 0, "MaxKeys", c.MaxKeys, "must be > 0 (0 means 65536)")
	return check.Err()
}

func (c Config) limit() int    { return cmp.Or(c.Limit, 25) }
func (c Config) maxQueue() int { return cmp.Or(c.MaxQueue, 1000) }
func (c Config) maxKeys() int  { return cmp.Or(c.MaxKeys, 1<<16) }

// adapted returns a limit that Backoff has lowered, within the bounds.
func (c Config) adapted(limit int) int { return min(max(limit, c.MinLimit, 1), c.limit()) }
