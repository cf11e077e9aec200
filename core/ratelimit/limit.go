package ratelimit

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"time"
	"unique"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit/driver"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/validate"
)

// Algorithm is how a [Limit] counts.
type Algorithm uint8

const (
	// AlgorithmFixedWindow counts in windows of one period. A window starts with the
	// first take after the last one ended, so a key that rests gets a whole
	// window when it comes back, or, if Aligned, with the clock; around the border
	// of two windows up to twice the permits can be taken within a period. A window
	// ends when it said, also if its only take is refunded. In memory one that is not
	// Aligned may begin some nanoseconds before its first take, and one of more than
	// 2^26 permits up to a 500th of its period before it, or after it if a window of
	// the key ended just then. A key is 16 bytes.
	AlgorithmFixedWindow Algorithm = iota
	// AlgorithmTokenBucket holds up to Burst permits and refills evenly, Permits each
	// Period. It is kept as one time (the theoretical arrival time of the
	// generic cell rate algorithm, ITU-T I.371) in exact integers: no drift. A key
	// is 16 bytes.
	AlgorithmTokenBucket
	// AlgorithmSlidingWindow counts in Segments of a period, and a segment that is a period
	// old steps out whole: all that was taken in it comes back at once. In any time
	// of a period less one segment no more than Permits are taken. Segments begin
	// with the clock of the store, in memory with the making of the table. A key
	// takes some 120 bytes, and up to 32 for each segment in use.
	AlgorithmSlidingWindow
	// AlgorithmSlidingCounter keeps two counts, of this window and of the one before, and
	// weighs the latter by the part of it that is less than a period ago, as if it
	// had been taken evenly. The first window starts with the first take of a key
	// that rested, and ends a period later, also if that take is refunded. A key is
	// some 120 bytes.
	AlgorithmSlidingCounter
	// AlgorithmSlidingLog keeps the time of every take: no more than Permits are ever taken
	// in any time of one period. It takes up to MaxLogPermits, and a key some 120 bytes
	// and up to 64 for each take within a period.
	AlgorithmSlidingLog

	algorithms // how many there are
)

// String returns the name in the form "fixed_window".
func (a Algorithm) String() string {
	if a < algorithms {
		return [...]string{"fixed_window", "token_bucket", "sliding_window", "sliding_counter", "sliding_log"}[a]
	}
	return fmt.Sprintf("Algorithm(%d)", uint8(a))
}

// MarshalText returns the text of String. A value without a name is an error.
func (a Algorithm) MarshalText() ([]byte, error) { return validate.MarshalText(a, algorithms-1) }

// UnmarshalText reads the text of MarshalText. Any other text is an error.
func (a *Algorithm) UnmarshalText(text []byte) error {
	return validate.UnmarshalText(a, algorithms-1, text)
}

// Bounds of a [Limit].
const (
	// MaxPermits is the highest Permits and the highest Burst.
	MaxPermits = 1 << 38
	// MaxLogPermits is the highest Permits of a SlidingLog.
	MaxLogPermits = 1 << 16
	// MaxPeriod is the longest Period, and the longest time that a bucket may
	// take to fill.
	MaxPeriod = 5 * 365 * 24 * time.Hour
	// MaxSegments is the highest Segments.
	MaxSegments = 1000
	// MaxLimits is how many limits can be joined by And.
	MaxLimits = limits.MaxLimits
)

const (
	defaultPermits  = 1000
	defaultPeriod   = time.Minute
	defaultSegments = 10
)

// A Limit is a number of permits that each key can take in a time. It is a comparable
// value. The zero Limit is PerMinute(1000). Several limits that hold together are
// one Limit: see [Limit.And]. In JSON it is its text: see [Limit.UnmarshalText].
type Limit struct {
	// Algorithm is how it counts. The zero value is [AlgorithmFixedWindow].
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
	// Segments is how many parts the window of a SlidingWindow has: 2 to
	// MaxSegments, and a divisor of Period in nanoseconds. If zero, it is 10. It must
	// be zero for all others.
	Segments int
	// Aligned makes the windows of a FixedWindow begin at whole multiples of Period
	// since the beginning of 1970 in UTC: hours with the hour, days at midnight. A
	// store in memory reads the time of day once, when the table is made, and does
	// not follow a clock that is set later. It must be false for all others.
	Aligned bool
	also    unique.Handle[Limit] // what And joined; the zero handle is none
}

// PerSecond is a fixed window of n permits a second.
func PerSecond(n int64) Limit { return Limit{Permits: n, Period: time.Second} }

// PerMinute is a fixed window of n permits a minute.
func PerMinute(n int64) Limit { return Limit{Permits: n, Period: time.Minute} }

// PerHour is a fixed window of n permits an hour.
func PerHour(n int64) Limit { return Limit{Permits: n, Period: time.Hour} }

// FixedWindow is a fixed window of n permits in each period. It is never the zero
// Limit: FixedWindow(0, 0) is as invalid as it looks.
func FixedWindow(n int64, period time.Duration) Limit {
	if n == 0 && period == 0 {
		period = -1
	}
	return Limit{Permits: n, Period: period}
}

// AlignedWindow is a fixed window of n permits in each period that begins with the
// clock, as on the hour: see Limit.Aligned.
func AlignedWindow(n int64, period time.Duration) Limit {
	return Limit{Permits: n, Period: period, Aligned: true}
}

// TokenBucket is a token bucket that gains n permits in each period, evenly, and
// holds at most burst. A burst of 0 is n.
//
// It is a leaky bucket too. As a meter, which leaks n permits in each period and overflows
// above burst, a leaky bucket is its mirror image. As a queue, from which permits come one
// by one, it has a burst of 1, and its callers use [Limiter.Wait].
func TokenBucket(n int64, period time.Duration, burst int64) Limit {
	return Limit{Algorithm: AlgorithmTokenBucket, Permits: n, Period: period, Burst: burst}
}

// SlidingWindow is a sliding window of n permits in a period of so many segments, of
// which 0 is 10.
func SlidingWindow(n int64, period time.Duration, segments int) Limit {
	return Limit{Algorithm: AlgorithmSlidingWindow, Permits: n, Period: period, Segments: segments}
}

// SlidingCounter is a sliding counter of n permits in a period.
func SlidingCounter(n int64, period time.Duration) Limit {
	return Limit{Algorithm: AlgorithmSlidingCounter, Permits: n, Period: period}
}

// SlidingLog is a sliding log of n permits in a period.
func SlidingLog(n int64, period time.Duration) Limit {
	return Limit{Algorithm: AlgorithmSlidingLog, Permits: n, Period: period}
}

// And is l and other together, as in PerSecond(10).And(PerHour(1000)): permits are
// taken of all or of none. At most MaxLimits can be joined. The two must differ in
// more than Permits and Burst: of two that do not, one would decide alone, and a change
// of the limit could not pair them (see [Limiter.SetLimit]).
func (l Limit) And(other Limit) Limit {
	if l.also != (unique.Handle[Limit]{}) {
		other = l.also.Value().And(other)
	}
	l.also = unique.Make(other)
	return l
}

// All returns the limits that And joined, in their order; of one limit it is that
// limit.
func (l Limit) All() []Limit {
	var all []Limit
	for {
		also := l.also
		l.also = unique.Handle[Limit]{}
		all = append(all, l)
		if also == l.also {
			return all
		}
		l = also.Value()
	}
}

// Capacity is the highest cost that the limit can ever allow at once: the burst
// of a bucket, the permits of a window, the least of several.
func (l Limit) Capacity() int64 {
	l = l.resolved()
	least := l.Permits
	if l.Burst > 0 {
		least = l.Burst
	}
	if l.also != (unique.Handle[Limit]{}) {
		least = min(least, l.also.Value().Capacity())
	}
	return least
}

// Validate reports every field that cannot be used, joined.
func (l Limit) Validate() error {
	all := l.All()
	var errs []error
	if len(all) > MaxLimits {
		errs = append(errs, &core.ConfigError{Field: "ratelimit.Limit", Value: fmt.Sprintf("%d limits", len(all)), Reason: fmt.Sprintf("must be %d or fewer joined by And", MaxLimits)})
	}
	var specs []driver.Spec
	for _, l := range all {
		err := l.validate()
		errs = append(errs, err)
		if err != nil {
			continue
		}
		spec := l.resolved().spec()
		if slices.ContainsFunc(specs, func(other driver.Spec) bool { return limits.Pairs(spec, other) }) {
			errs = append(errs, &core.ConfigError{Field: "ratelimit.Limit", Value: l.String(), Reason: "must differ from those it is joined to in more than Permits and Burst: a key has one count for both"})
		}
		specs = append(specs, spec)
	}
	return errors.Join(errs...)
}

// validate looks at one limit.
func (l Limit) validate() error {
	r := l.resolved()
	var errs []error
	bad := func(field string, value any, reason string, args ...any) {
		errs = append(errs, &core.ConfigError{Field: "ratelimit.Limit." + field, Value: value, Reason: fmt.Sprintf(reason, args...)})
	}
	if l.Algorithm >= algorithms {
		bad("Algorithm", l.Algorithm, "must be FixedWindow, TokenBucket, SlidingWindow, SlidingCounter or SlidingLog")
	}
	most := int64(MaxPermits)
	if l.Algorithm == AlgorithmSlidingLog {
		most = MaxLogPermits
	}
	if r.Permits < 1 || r.Permits > most {
		bad("Permits", l.Permits, "must be 1 to %d (only the zero Limit means %d)", most, defaultPermits)
	}
	if r.Period < 1 || r.Period > MaxPeriod {
		bad("Period", l.Period, "must be 1ns to %v (only the zero Limit means %v)", MaxPeriod, defaultPeriod)
	}
	switch {
	case l.Algorithm == AlgorithmSlidingWindow && (r.Segments < 2 || r.Segments > MaxSegments):
		bad("Segments", l.Segments, "must be 2 to %d (0 means %d)", MaxSegments, defaultSegments)
	case l.Algorithm == AlgorithmSlidingWindow && r.Period > 0 && int64(r.Period)%int64(r.Segments) != 0:
		bad("Segments", r.Segments, "must divide the period, %v, into whole nanoseconds", l.Period)
	case l.Algorithm != AlgorithmSlidingWindow && l.Segments != 0:
		bad("Segments", l.Segments, "must be 0 but for a sliding window")
	}
	if l.Aligned && l.Algorithm != AlgorithmFixedWindow {
		bad("Aligned", l.Aligned, "must be false but for a fixed window")
	}
	bucket := l.Algorithm == AlgorithmTokenBucket
	switch {
	case !bucket && l.Burst != 0:
		bad("Burst", l.Burst, "must be 0 for a window, whose capacity is Permits")
	case l.Burst < 0 || l.Burst > MaxPermits:
		bad("Burst", l.Burst, "must be 0 to %d (0 means Permits)", int64(MaxPermits))
	case bucket && errs == nil:
		if fill, ok := mulDiv(uint64(r.Burst), uint64(r.Period), uint64(r.Permits)); !ok || fill > uint64(MaxPeriod) {
			bad("Burst", l.Burst, "must fill within %v at %d per %v", MaxPeriod, l.Permits, l.Period)
		} else if (limits.Clock{}).Rule(r.spec()) == nil {
			bad("Burst", l.Burst, "is more than can be counted exactly at %d per %v: take a smaller burst, or permits that share a factor with the period", l.Permits, l.Period)
		}
	}
	return errors.Join(errs...)
}

// resolved is l with its defaults in place.
func (l Limit) resolved() Limit {
	if l.also != (unique.Handle[Limit]{}) {
		l.also = unique.Make(l.also.Value().resolved())
	}
	switch {
	case l == (Limit{also: l.also}):
		l.Permits, l.Period = defaultPermits, defaultPeriod
	case l.Algorithm == AlgorithmTokenBucket && l.Burst == 0:
		l.Burst = l.Permits
	case l.Algorithm == AlgorithmSlidingWindow && l.Segments == 0:
		l.Segments = defaultSegments
	}
	return l
}

// spec is one limit with its defaults in place, in numbers.
func (l Limit) spec() driver.Spec {
	return driver.Spec{
		Algorithm: driver.Algorithm(l.Algorithm), Permits: l.Permits, Period: l.Period, Burst: l.Burst, Segments: l.Segments, Aligned: l.Aligned,
	}
}

// Specs returns the limits that And joined, as a store takes them.
func (l Limit) Specs() []driver.Spec {
	var specs []driver.Spec
	for _, l := range l.resolved().All() {
		specs = append(specs, l.spec())
	}
	return specs
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
