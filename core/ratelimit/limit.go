package ratelimit

import (
	"errors"
	"fmt"
	"slices"
	"time"
	"unique"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/text"
	"github.com/gresil/gresil/internal/validate"
)

// Algorithm is how a [Limit] counts.
type Algorithm uint8

// The algorithms. Each constructor has the promises of its algorithm.
const (
	AlgorithmFixedWindow    Algorithm = iota // [FixedWindow] and [AlignedWindow]
	AlgorithmTokenBucket                     // [TokenBucket]
	AlgorithmSlidingWindow                   // [SlidingWindow]
	AlgorithmSlidingCounter                  // [SlidingCounter]
	AlgorithmSlidingLog                      // [SlidingLog]

	algorithms // how many there are
)

// String returns the name in the form "fixed_window".
func (a Algorithm) String() string {
	return text.Name(a, "fixed_window", "token_bucket", "sliding_window", "sliding_counter", "sliding_log")
}

// MarshalText returns the text of String. A value without a name is an error.
func (a Algorithm) MarshalText() ([]byte, error) { return validate.MarshalText(a, algorithms-1) }

// UnmarshalText reads the text of MarshalText. Any other text is an error.
func (a *Algorithm) UnmarshalText(s []byte) error {
	return validate.UnmarshalText(a, algorithms-1, s)
}

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
	// Permits is how many permits there are in each Period: 1 to 2^38, of a SlidingLog to 2^16.
	Permits int64
	// Period is the length of a window, or the time in which a bucket gains
	// Permits: 1ns to 5 years (43800h). A bucket must fill within 5 years.
	Period time.Duration
	// Burst is the capacity of a bucket: how many permits a key that rested may
	// take at once, 1 to 2^38. If zero, it is Permits. A window has none:
	// it must be zero there.
	Burst int64
	// Segments is how many parts the window of a SlidingWindow has: 2 to
	// 1000, and a divisor of Period in nanoseconds. If zero, it is 10. It must
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

// FixedWindow allows at most n permits in each window of one period, and so at most 2n in any
// interval of one period: around the border of two windows. A window starts with the first take after
// the last one ended, so a key that rests gets a whole window when it comes back. A window ends at the
// announced time, also if its only take is refunded.
//
// In memory a window may begin some nanoseconds before its first take, and one of more than 2^26
// permits up to a 500th of its period before it, or after it if a window of the key ended just then.
// A key is 16 bytes. FixedWindow is never the zero Limit: FixedWindow(0, 0) is invalid.
func FixedWindow(n int64, period time.Duration) Limit {
	if n == 0 && period == 0 {
		period = -1
	}
	return Limit{Permits: n, Period: period}
}

// AlignedWindow is a [FixedWindow] that begins with the clock, as on the hour: see Limit.Aligned.
func AlignedWindow(n int64, period time.Duration) Limit {
	return Limit{Permits: n, Period: period, Aligned: true}
}

// TokenBucket allows at most burst permits at once, and at most burst plus n for each period in any
// interval: the bucket gains n permits in each period, evenly, and holds at most burst. A burst of 0
// is n.
//
// The bucket is kept as one time (the theoretical arrival time of the generic cell rate algorithm,
// ITU-T I.371) in exact integers: no drift. A key is 16 bytes.
//
// It is a leaky bucket too. As a meter, which leaks n permits in each period and overflows
// above burst, a leaky bucket is its mirror image. As a queue, from which permits come one
// by one, it has a burst of 1, and its callers use [Limiter.Wait].
func TokenBucket(n int64, period time.Duration, burst int64) Limit {
	return Limit{Algorithm: AlgorithmTokenBucket, Permits: n, Period: period, Burst: burst}
}

// SlidingWindow allows at most n permits in any interval of one period less one segment, and at most 2n
// in any interval of one period. It counts in so many segments of a period, of which 0 is 10. A segment
// that is a period old steps out whole: all its permits come back at once.
//
// Segments begin with the clock of the store, in memory with the making of the table. A key takes some
// 120 bytes, and up to 32 for each segment in use.
func SlidingWindow(n int64, period time.Duration, segments int) Limit {
	return Limit{Algorithm: AlgorithmSlidingWindow, Permits: n, Period: period, Segments: segments}
}

// SlidingCounter allows at most n permits in each window of one period, and fewer than 2n in any
// interval of one period. It keeps two counts, of this window and of the one before, and weighs the
// latter by the part of it that is less than a period ago, as if its permits had been taken evenly.
//
// The first window starts with the first take of a key that rested, and ends a period later, also if
// that take is refunded. A key is some 120 bytes.
func SlidingCounter(n int64, period time.Duration) Limit {
	return Limit{Algorithm: AlgorithmSlidingCounter, Permits: n, Period: period}
}

// SlidingLog allows at most n permits, of up to 2^16, in any interval of one period: it keeps the time
// of every take. A key takes some 120 bytes, and up to 64 for each take within a period.
func SlidingLog(n int64, period time.Duration) Limit {
	return Limit{Algorithm: AlgorithmSlidingLog, Permits: n, Period: period}
}

// And is l and other together, as in PerSecond(10).And(PerHour(1000)): permits are
// taken of all or of none. At most 4 can be joined. The two must differ in
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
	if len(all) > limits.MaxLimits {
		errs = append(errs, &core.ConfigError{Field: "ratelimit.Limit", Value: fmt.Sprintf("%d limits", len(all)), Reason: fmt.Sprintf("must be %d or fewer joined by And", limits.MaxLimits)})
	}
	var specs []limits.Spec
	for _, l := range all {
		err := l.validate()
		errs = append(errs, err)
		if err != nil {
			continue
		}
		spec := l.resolved().spec()
		if slices.ContainsFunc(specs, func(other limits.Spec) bool { return limits.Pairs(spec, other) }) {
			errs = append(errs, &core.ConfigError{Field: "ratelimit.Limit", Value: l.String(), Reason: "must differ from those it is joined to in more than Permits and Burst: a key has one count for both"})
		}
		specs = append(specs, spec)
	}
	return errors.Join(errs...)
}

// validate looks at one limit.
func (l Limit) validate() error {
	r, check := l.resolved(), validate.Of("ratelimit.Limit")
	check.That(l.Algorithm < algorithms, "Algorithm", l.Algorithm, "must be FixedWindow, TokenBucket, SlidingWindow, SlidingCounter or SlidingLog")
	most := int64(limits.MaxPermits)
	if l.Algorithm == AlgorithmSlidingLog {
		most = limits.MaxLogPermits
	}
	check.That(r.Permits >= 1 && r.Permits <= most, "Permits", l.Permits, fmt.Sprintf("must be 1 to %d (only the zero Limit means %d)", most, defaultPermits))
	check.That(r.Period >= 1 && r.Period <= limits.MaxPeriod, "Period", l.Period, fmt.Sprintf("must be 1ns to %v (only the zero Limit means %v)", limits.MaxPeriod, defaultPeriod))
	l.validateSegments(check, r)
	check.That(!l.Aligned || l.Algorithm == AlgorithmFixedWindow, "Aligned", l.Aligned, "must be false but for a fixed window")
	l.validateBurst(check, r)
	return check.Err()
}

func (l Limit) validateSegments(check *validate.Check, resolved Limit) {
	segments, period := resolved.Segments, resolved.Period
	switch {
	case l.Algorithm != AlgorithmSlidingWindow:
		check.That(l.Segments == 0, "Segments", l.Segments, "must be 0 but for a sliding window")
	case segments < 2 || segments > limits.MaxSegments:
		check.That(false, "Segments", l.Segments, fmt.Sprintf("must be 2 to %d (0 means %d)", limits.MaxSegments, defaultSegments))
	case period > 0:
		check.That(int64(period)%int64(segments) == 0, "Segments", segments, fmt.Sprintf("must divide the period, %v, into whole nanoseconds", l.Period))
	}
}

func (l Limit) validateBurst(check *validate.Check, resolved Limit) {
	switch {
	case l.Algorithm != AlgorithmTokenBucket:
		check.That(l.Burst == 0, "Burst", l.Burst, "must be 0 for a window, whose capacity is Permits")
	case l.Burst < 0 || l.Burst > limits.MaxPermits:
		check.That(false, "Burst", l.Burst, fmt.Sprintf("must be 0 to %d (0 means Permits)", int64(limits.MaxPermits)))
	case check.Err() == nil:
		if fill, ok := limits.FillTime(resolved.spec()); !ok || fill > limits.MaxPeriod {
			check.That(false, "Burst", l.Burst, fmt.Sprintf("must fill within %v at %d per %v", limits.MaxPeriod, l.Permits, l.Period))
			return
		}
		check.That(limits.Clock{}.Rule(resolved.spec()) != nil, "Burst", l.Burst, fmt.Sprintf("is more than can be counted exactly at %d per %v: take a smaller burst, or permits that share a factor with the period", l.Permits, l.Period))
	}
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
func (l Limit) spec() limits.Spec {
	return limits.Spec{
		Algorithm: limits.Algorithm(l.Algorithm), Permits: l.Permits, Period: l.Period, Burst: l.Burst, Segments: l.Segments, Aligned: l.Aligned,
	}
}

// Specs returns the limits that And joined, as a store takes them.
func (l Limit) Specs() []limits.Spec {
	var specs []limits.Spec
	for _, l := range l.resolved().All() {
		specs = append(specs, l.spec())
	}
	return specs
}
