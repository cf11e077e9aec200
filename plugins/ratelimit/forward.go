package ratelimit

import (
	"time"

	"github.com/gresil/gresil/core/cooldown"
	"github.com/gresil/gresil/core/ratelimit"
)

// The types of core/ratelimit and core/cooldown that the plugin uses: one import is enough.
type (
	// Limiter decides; it is the mechanism of both plugins.
	Limiter = ratelimit.Limiter
	// Cooldown holds the keys of a [Client].
	Cooldown = cooldown.Cooldown
	// CooldownStore shares the holds of a [Client].
	CooldownStore = cooldown.Store
	// Limit is the number of permits of a key in a period.
	Limit = ratelimit.Limit
	// Result is the decision about a request, and the state of its key.
	Result = ratelimit.Result
	// Store holds the state of the keys.
	Store = ratelimit.Store
	// FailurePolicy is the action if the store fails.
	FailurePolicy = ratelimit.FailurePolicy
	// ClientStats are the counters of the limiter of a [Client].
	ClientStats = ratelimit.Stats
)

// ErrLimited is matched by the error of a request that a limit has rejected, a
// *LimitedError of core/ratelimit.
var ErrLimited = ratelimit.ErrLimited

// The values of a [FailurePolicy].
const (
	// Allow lets requests pass while the store fails.
	Allow = ratelimit.Allow
	// Deny answers them with 503.
	Deny = ratelimit.Deny
	// Local decides in this process, with its share of the limit.
	Local = ratelimit.Local
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

// FixedWindow is a fixed window of n permits in each period.
func FixedWindow(n int64, period time.Duration) Limit { return ratelimit.FixedWindow(n, period) }

// AlignedWindow is a fixed window of n permits in each period that begins with the
// clock, as on the hour.
func AlignedWindow(n int64, period time.Duration) Limit { return ratelimit.AlignedWindow(n, period) }

// SlidingWindow is a sliding window of n permits in a period of so many segments, of
// which 0 is ten.
func SlidingWindow(n int64, period time.Duration, segments int) Limit {
	return ratelimit.SlidingWindow(n, period, segments)
}

// SlidingCounter is a sliding counter of n permits in a period.
func SlidingCounter(n int64, period time.Duration) Limit { return ratelimit.SlidingCounter(n, period) }

// SlidingLog is a sliding log of n permits in a period.
func SlidingLog(n int64, period time.Duration) Limit { return ratelimit.SlidingLog(n, period) }

// TokenBucket gains n permits in each period, evenly, and holds at most burst. A
// burst of 0 is n.
func TokenBucket(n int64, period time.Duration, burst int64) Limit {
	return ratelimit.TokenBucket(n, period, burst)
}
