package ratelimit

import (
	"errors"
	"fmt"
	"math/bits"
	"time"

	"github.com/gresil/gresil/core"
)

// Algorithm is how a [Limit] counts.
type Algorithm uint8

const (
	// FixedWindow counts in windows of one period. A window starts with the
	// first take after the last one ended, so a key that rests gets a whole
	// window when it comes back; around the border of two windows up to twice
	// the permits can be taken within a period. The start of a window of more than
	// 2^26 permits is rounded up, by less than a 500th of the period.
	FixedWindow Algorithm = iota
	// TokenBucket holds up to Burst permits and refills evenly, Permits each
	// Period. It is kept as one time (the theoretical arrival time of the
	// generic cell rate algorithm, ITU-T I.371) in exact integers: no drift.
	TokenBucket
)

// String returns "fixed_window" or "token_bucket".
func (a Algorithm) String() string {
	switch a {
	case FixedWindow:
		return "fixed_window"
	case TokenBucket:
		return "token_bucket"
	}
	return fmt.Sprintf("Algorithm(%d)", uint8(a))
}

// MarshalText returns the same text as String.
func (a Algorithm) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// Bounds of a [Limit].
const (
	// MaxPermits is the highest Permits and the highest Burst.
	MaxPermits = 1 << 38
	// MaxPeriod is the longest Period, and the longest time that a bucket may
	// take to fill.
	MaxPeriod = 5 * 365 * 24 * time.Hour

	// DefaultPermits and DefaultPeriod are what the zero Limit stands for.
	DefaultPermits = 1000
	// DefaultPeriod is the period of the zero Limit.
	DefaultPeriod = time.Minute
)

// A Limit says how many permits a key may take in what time. It is a comparable
// value. The zero Limit is PerMinute(1000).
type Limit struct {
	// Algorithm is how it counts. The zero value is [FixedWindow].
	Algorithm Algorithm
	// Permits is how many permits there are in each Period: 1 to MaxPermits.
	Permits int64
	// Period is the length of a window, or the time in which a bucket gains
	// Permits: 1ns to MaxPeriod.
	Period time.Duration
	// Burst is the capacity of a bucket: how many permits a key that rested may
	// take at once, 1 to MaxPermits. If zero, it is Permits. A window has none:
	// it must be zero there.
	Burst int64
}

// PerSecond is a fixed window of n permits a second.
func PerSecond(n int64) Limit { return Limit{Permits: n, Period: time.Second} }

// PerMinute is a fixed window of n permits a minute.
func PerMinute(n int64) Limit { return Limit{Permits: n, Period: time.Minute} }

// PerHour is a fixed window of n permits an hour.
func PerHour(n int64) Limit { return Limit{Permits: n, Period: time.Hour} }

// Window is a fixed window of n permits in each period. It is never the zero
// Limit: Window(0, 0) is as invalid as it looks.
func Window(n int64, period time.Duration) Limit {
	if n == 0 && period == 0 {
		period = -1
	}
	return Limit{Permits: n, Period: period}
}

// Bucket is a token bucket that gains n permits in each period, evenly, and
// holds at most burst. A burst of 0 is n.
func Bucket(n int64, period time.Duration, burst int64) Limit {
	return Limit{Algorithm: TokenBucket, Permits: n, Period: period, Burst: burst}
}

// Capacity is the highest cost that the limit can ever allow at once: the burst
// of a bucket, the permits of a window.
func (l Limit) Capacity() int64 {
	l = l.resolved()
	if l.Algorithm == TokenBucket {
		return l.Burst
	}
	return l.Permits
}

// String describes the limit, as in "100 per 1m0s" or "10 per 1s, burst 20".
func (l Limit) String() string {
	l = l.resolved()
	if l.Algorithm == TokenBucket {
		return fmt.Sprintf("%d per %v, burst %d", l.Permits, l.Period, l.Burst)
	}
	return fmt.Sprintf("%d per %v", l.Permits, l.Period)
}

// Validate reports every field that cannot be used, joined.
func (l Limit) Validate() error {
	r := l.resolved()
	var errs []error
	bad := func(field string, value any, reason string, args ...any) {
		errs = append(errs, &core.ConfigError{Field: "ratelimit.Limit." + field, Value: value, Reason: fmt.Sprintf(reason, args...)})
	}
	if l.Algorithm > TokenBucket {
		bad("Algorithm", l.Algorithm, "must be FixedWindow or TokenBucket")
	}
	if r.Permits < 1 || r.Permits > MaxPermits {
		bad("Permits", l.Permits, "must be 1 to %d (only the zero Limit means %d)", int64(MaxPermits), DefaultPermits)
	}
	if r.Period < 1 || r.Period > MaxPeriod {
		bad("Period", l.Period, "must be 1ns to %v (only the zero Limit means %v)", MaxPeriod, DefaultPeriod)
	}
	switch {
	case l.Algorithm == FixedWindow && l.Burst != 0:
		bad("Burst", l.Burst, "must be 0 for a fixed window, whose capacity is Permits")
	case l.Algorithm == TokenBucket && (l.Burst < 0 || l.Burst > MaxPermits):
		bad("Burst", l.Burst, "must be 0 to %d (0 means Permits)", int64(MaxPermits))
	case l.Algorithm == TokenBucket && errs == nil:
		if fill, ok := mulDiv(uint64(r.Burst), uint64(r.Period), uint64(r.Permits)); !ok || fill > uint64(MaxPeriod) {
			bad("Burst", l.Burst, "must fill within %v at %d per %v", MaxPeriod, l.Permits, l.Period)
		} else if _, ok := newScale(r); !ok {
			bad("Burst", l.Burst, "is more than can be counted exactly at %d per %v: take a smaller burst, or permits that share a factor with the period", l.Permits, l.Period)
		}
	}
	return errors.Join(errs...)
}

// resolved is l with its defaults in place.
func (l Limit) resolved() Limit {
	if l == (Limit{}) {
		l = Window(DefaultPermits, DefaultPeriod)
	}
	if l.Algorithm == TokenBucket && l.Burst == 0 {
		l.Burst = l.Permits
	}
	return l
}

// mulDiv returns a*b/c rounded up, and false when that is above 63 bits.
func mulDiv(a, b, c uint64) (uint64, bool) {
	hi, lo := bits.Mul64(a, b)
	if hi >= c {
		return 0, false
	}
	q, r := bits.Div64(hi, lo, c)
	if r > 0 {
		q++
	}
	return q, q < 1<<63
}
