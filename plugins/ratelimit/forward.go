package ratelimit

import (
	"time"

	"github.com/gresil/gresil/core/ratelimit"
)

type (
	// Config configures a limiter: see core/ratelimit.
	Config = ratelimit.Config
	// FailurePolicy is the type of Config.OnStoreError: see core/ratelimit.
	FailurePolicy = ratelimit.FailurePolicy
	// A Limit is a number of permits in a period: see core/ratelimit.
	Limit = ratelimit.Limit
	// A LimitedError is the reason of a rejection by a limit: see core/ratelimit.
	LimitedError = ratelimit.LimitedError
	// A Limiter limits how many permits a key can take: see core/ratelimit.
	Limiter = ratelimit.Limiter
	// A Result is the decision about one operation: see core/ratelimit.
	Result = ratelimit.Result
	// A Store holds the state of keys: see core/ratelimit.
	Store = ratelimit.Store
)

// The policies of Config.OnStoreError.
const (
	Allow = ratelimit.Allow
	Deny  = ratelimit.Deny
	Local = ratelimit.Local
)

// ErrLimited is matched by a *LimitedError.
var ErrLimited = ratelimit.ErrLimited

// New makes a limiter.
func New(cfg Config) (*Limiter, error) { return ratelimit.New(cfg) }

// NewStore makes a store that keeps its values in a database.
func NewStore(values ratelimit.Values) ratelimit.Store { return ratelimit.NewStore(values) }

// PerSecond is a fixed window of n permits a second.
func PerSecond(n int64) Limit { return ratelimit.PerSecond(n) }

// PerMinute is a fixed window of n permits a minute.
func PerMinute(n int64) Limit { return ratelimit.PerMinute(n) }

// PerHour is a fixed window of n permits an hour.
func PerHour(n int64) Limit { return ratelimit.PerHour(n) }

// FixedWindow allows n permits in each window; a window begins with a take.
func FixedWindow(n int64, period time.Duration) Limit { return ratelimit.FixedWindow(n, period) }

// AlignedWindow allows n permits in each window; windows begin at full periods of the clock.
func AlignedWindow(n int64, period time.Duration) Limit { return ratelimit.AlignedWindow(n, period) }

// SlidingWindow allows n permits in any interval of one period less one segment.
func SlidingWindow(n int64, period time.Duration, segments int) Limit {
	return ratelimit.SlidingWindow(n, period, segments)
}

// SlidingLog allows n permits in any interval of one period.
func SlidingLog(n int64, period time.Duration) Limit { return ratelimit.SlidingLog(n, period) }

// TokenBucket is refilled by n permits a period, and holds up to burst.
func TokenBucket(n int64, period time.Duration, burst int64) Limit {
	return ratelimit.TokenBucket(n, period, burst)
}

// SlidingCounter allows n permits a period, by the counts of two windows, of which the previous one is weighted.
func SlidingCounter(n int64, period time.Duration) Limit { return ratelimit.SlidingCounter(n, period) }
