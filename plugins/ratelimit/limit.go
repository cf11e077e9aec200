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
	// QueueOrder says which of those that wait is served first.
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
	// Local decides on them here, with the share of this process.
	Local = ratelimit.Local
)

// What a [QueueOrder] can be.
const (
	// OldestFirst serves requests in the order in which they came.
	OldestFirst = ratelimit.OldestFirst
	// NewestFirst serves the last one first, and where the queue is full refuses the
	// oldest: its client is the likeliest to have left.
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

// Aligned is a fixed window of n permits in each period that begins with the
// clock, as on the hour.
func Aligned(n int64, period time.Duration) Limit { return ratelimit.Aligned(n, period) }

// Sliding is a sliding window of n permits in a period of so many segments, of
// which 0 is ten.
func Sliding(n int64, period time.Duration, segments int) Limit {
	return ratelimit.Sliding(n, period, segments)
}

// Counter is a sliding counter of n permits in a period.
func Counter(n int64, period time.Duration) Limit { return ratelimit.Counter(n, period) }

// Log is a sliding log of n permits in a period.
func Log(n int64, period time.Duration) Limit { return ratelimit.Log(n, period) }

// TokenBucket gains n permits in each period, evenly, and holds at most burst. A
// burst of 0 is n.
func TokenBucket(n int64, period time.Duration, burst int64) Limit {
	return ratelimit.Bucket(n, period, burst)
}
