package bulkhead

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/identity"
	"github.com/gresil/gresil/internal/text"
	"github.com/gresil/gresil/internal/validate"
)

// Defaults and limits of a [Config].
const (
	defaultLimit    = 25
	defaultMinLimit = 1
	defaultMaxWait  = 10 * time.Second
	defaultMaxQueue = 1000
	defaultMaxKeys  = 1 << 16

	mostPermits = 1<<31 - 1
)

// FailurePolicy is the treatment of a call when the store cannot decide.
type FailurePolicy uint8

const (
	// Deny rejects the call with [ErrStore]. A call in flight whose lease cannot be renewed
	// in time loses its permits: see [Permit.Context].
	Deny FailurePolicy = iota
	// Local decides in this process, as without a Store: each process then has the Limit for
	// itself. Calls in flight keep their permits until the store has given them to others.
	Local
)

// String returns "deny" or "local".
func (p FailurePolicy) String() string { return text.Name(p, "deny", "local") }

// MarshalText returns the text of String. A value without a name is an error.
func (p FailurePolicy) MarshalText() ([]byte, error) { return validate.MarshalText(p, Local) }

// UnmarshalText reads the text of MarshalText. Any other text is an error.
func (p *FailurePolicy) UnmarshalText(text []byte) error {
	return validate.UnmarshalText(p, Local, text)
}

// Config configures a [Bulkhead]. The zero value is ready to use: 25 calls.
//
// A Config is a plain value: copy it to derive another one from it.
type Config struct {
	// Name names the bulkhead, also in its errors. If empty, it is "default". Bulkheads with
	// one name in one Store share the permits of their keys.
	Name string
	// Registry registers the bulkhead under the kind "bulkhead" and its name. If nil, it
	// is not registered.
	Registry *core.Registry

	// Limit is the number of permits of one key that may be in flight. With Backoff, it
	// is the limit at the start, and the highest. If zero, it is 25. It must not be
	// negative, nor above 2,147,483,647.
	Limit int
	// Backoff lowers the limit of a key after a failure: the limit is multiplied by it,
	// and rounded down. As many successes as the limit, of calls that used at least half
	// of it, raise it by 1. If zero, the limit is fixed. Otherwise it must be between 0
	// and 1, as 0.5.
	Backoff float64
	// MinLimit is the lowest limit that Backoff leads to. If zero, it is 1. It must not
	// be negative, nor above Limit.
	MinLimit int

	// MaxWait is the longest time that a call waits for its permits. If zero, it is 10
	// seconds. If negative, only the context limits the wait. To wait never, set
	// MaxQueue.
	MaxWait time.Duration
	// MaxQueue is the number of calls that can wait for one key. If zero, it is 1,000. If
	// negative, no call waits.
	MaxQueue int
	// NewestFirst admits the newest waiter first. A call that finds its permits free
	// then does not wait for others, and a call that finds the queue full replaces the
	// oldest waiter, which is rejected. If false, waiters are admitted in the order of
	// their arrival, and a call that finds the queue full is rejected.
	NewestFirst bool
	// MaxKeys is the number of keys, apart from the empty one, that are kept. If zero, it
	// is 65,536. It must not be negative.
	MaxKeys int

	// Store shares the permits with the other bulkheads of the Name in it, in every process:
	// together they hold at most Limit permits of a key. All should have the same Limit. It
	// must be usable as long as the bulkhead, which does not close it. If nil, the permits
	// are those of this bulkhead. Backoff and NewestFirst need a nil Store.
	Store Store
	// OnStoreError applies when the Store cannot decide. The zero value is [Deny]. Without a
	// Store it must be Deny.
	OnStoreError FailurePolicy

	// Classify returns the outcome of an operation of [Do], for Backoff. If nil, no error
	// is a [core.Success], and an error is a [core.Failure] unless it is a rejection
	// ([core.ErrRejected]) or the caller has canceled ctx, as in Classify of core/breaker.
	Classify func(ctx context.Context, result any, err error) core.Outcome
}

// Validate reports every field that cannot be used, joined. Each is a
// [*core.ConfigError].
func (c Config) Validate() error {
	check := validate.Of("bulkhead.Config")
	check.That(c.Limit >= 0 && c.Limit <= mostPermits, "Limit", c.Limit, fmt.Sprintf("must be > 0 and <= %d (0 means %d)", mostPermits, defaultLimit))
	check.That(c.Backoff >= 0 && c.Backoff < 1, "Backoff", c.Backoff, "must be > 0 and < 1 (0 means that the limit is fixed)")
	check.That(c.MinLimit >= 0 && c.MinLimit <= max(c.limit(), 1), "MinLimit", c.MinLimit, fmt.Sprintf("must be > 0 and <= Limit (0 means %d)", defaultMinLimit))
	check.That(c.MaxKeys >= 0, "MaxKeys", c.MaxKeys, fmt.Sprintf("must be > 0 (0 means %d)", defaultMaxKeys))
	check.That(c.Store == nil || !identity.Missing(c.Store), "Store", "a nil pointer", "must be a store, or nil for permits of this process")
	check.That(c.Store == nil || c.Backoff == 0, "Backoff", c.Backoff, "must be 0 with a Store")
	check.That(c.Store == nil || !c.NewestFirst, "NewestFirst", c.NewestFirst, "must be false with a Store")
	check.That(c.OnStoreError <= Local, "OnStoreError", c.OnStoreError, "must be Deny or Local")
	check.That(c.OnStoreError == Deny || c.Store != nil, "OnStoreError", c.OnStoreError, "must be Deny without a Store: memory does not fail")
	return check.Err()
}

func (c Config) limit() int    { return cmp.Or(c.Limit, defaultLimit) }
func (c Config) minLimit() int { return cmp.Or(c.MinLimit, defaultMinLimit) }
func (c Config) maxQueue() int { return cmp.Or(c.MaxQueue, defaultMaxQueue) }
func (c Config) maxKeys() int  { return cmp.Or(c.MaxKeys, defaultMaxKeys) }

func (c Config) maxWait() time.Duration {
	if c.MaxWait < 0 {
		return 1<<63 - 1
	}
	return cmp.Or(c.MaxWait, defaultMaxWait)
}
