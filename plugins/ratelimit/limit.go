package ratelimit

import (
	"time"

	"github.com/gresil/gresil/core/ratelimit"
)

// What the plugin shares with core/ratelimit, so that one import is enough.
type (
	// Limit says how many permits a key may take in what time.
	Limit = ratelimit.Limit
	// Result is what was decided about a request, and how its key stands.
	Result = ratelimit.Result
	// Info is what OnRejected, OnSuccess and the hooks are told.
	Info = ratelimit.Info
	// Hooks observe the limiter.
	Hooks = ratelimit.Hooks
	// Store holds the state of the keys.
	Store = ratelimit.Store
	// FailurePolicy says what happens to a request when the store fails.
	FailurePolicy = ratelimit.FailurePolicy
	// QueueOrder is the order in which those who wait are served.
	QueueOrder = ratelimit.QueueOrder
	// LimitedError is the error of a request that a Client rejects.
	LimitedError = ratelimit.LimitedError
)

// ErrLimited is matched by every [*LimitedError].
var ErrLimited = ratelimit.ErrLimited

// What a [FailurePolicy] can be.
const (
	// Allow lets requests pass while the store fails.
	Allow = ratelimit.Allow
	// Deny answers them with 503.
	Deny = ratelimit.Deny
)

// What a [QueueOrder] can be.
const (
	// OldestFirst serves them as they came.
	OldestFirst = ratelimit.OldestFirst
	// NewestFirst serves the newest first.
	NewestFirst = ratelimit.NewestFirst
)

// Never is the RetryAfter of a request that costs more than the limit ever
// allows.
const Never = ratelimit.Never

// PerSecond is a fixed window of n permits a second.
func PerSecond(n int64) Limit { return ratelimit.PerSecond(n) }

// PerMinute is a fixed window of n permits a minute.
func PerMinute(n int64) Limit { return ratelimit.PerMinute(n) }

// PerHour is a fixed window of n permits an hour.
func PerHour(n int64) Limit { return ratelimit.PerHour(n) }

// Window is a fixed window of n permits in each period.
func Window(n int64, period time.Duration) Limit { return ratelimit.Window(n, period) }

// TokenBucket gains n permits in each period, evenly, and holds at most burst. A
// burst of 0 is n.
func TokenBucket(n int64, period time.Duration, burst int64) Limit {
	return ratelimit.Bucket(n, period, burst)
}
