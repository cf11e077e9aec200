package ratelimit

import (
	"time"

	"github.com/gresil/gresil/internal/limits"
)

// A Limit is a number of permits in a period, and the algorithm that counts them. It is a comparable value; the functions below make it.
// The zero Limit is PerMinute(1000).
//
// Its text is "100/1m" for a fixed window and "10/1s burst 20" for a bucket. Other texts begin with the algorithm, as
// in "sliding_log 5/1h". "and" joins several: "10/1s and 1000/24h aligned". In JSON and YAML a Limit is this text.
type Limit limits.Limit

// PerSecond is a FixedWindow of n permits a second.
func PerSecond(n int64) Limit { return FixedWindow(n, time.Second) }

// PerMinute is a FixedWindow of n permits a minute.
func PerMinute(n int64) Limit { return FixedWindow(n, time.Minute) }

// PerHour is a FixedWindow of n permits an hour.
func PerHour(n int64) Limit { return FixedWindow(n, time.Hour) }

// FixedWindow allows n permits in each window, and so at most 2n-1 in any interval of one period. A window begins with the first take after
// the previous window has ended.
//
// In memory a window can begin a little before or after its first take: by less than a millionth of its period, or by up to a 250th if it
// has 2^26 permits or more.
func FixedWindow(n int64, period time.Duration) Limit {
	return of(limits.Spec{Permits: n, Period: period})
}

// AlignedWindow is a FixedWindow whose windows begin at multiples of the period since the beginning of 1970 in UTC: an hour begins with the
// hour, a day at midnight. In memory the wall clock is read once, when the limiter is made.
func AlignedWindow(n int64, period time.Duration) Limit {
	return of(limits.Spec{Permits: n, Period: period, Aligned: true})
}

// SlidingWindow allows n permits in any interval of one period less one segment. It counts by segments, 2 to 1,000 of them. A segment
// expires as a whole when it is a period old: all its permits are available again at once.
func SlidingWindow(n int64, period time.Duration, segments int) Limit {
	return of(limits.Spec{Algorithm: limits.SlidingWindow, Permits: n, Period: period, Segments: segments})
}

// SlidingCounter allows n permits in each window, and fewer than 2n in any interval of one period. It counts the usage of the previous
// window in proportion to the part of that window that is less than a period ago.
func SlidingCounter(n int64, period time.Duration) Limit {
	return of(limits.Spec{Algorithm: limits.SlidingCounter, Permits: n, Period: period})
}

// SlidingLog allows n permits in any interval of one period; n is at most 65,536. It keeps the time of every take.
func SlidingLog(n int64, period time.Duration) Limit {
	return of(limits.Spec{Algorithm: limits.SlidingLog, Permits: n, Period: period})
}

// TokenBucket is refilled evenly by n permits a period, and holds up to burst. A burst of 1 spaces permits evenly, like a leaky bucket. The
// state of a bucket is one time in whole numbers (the generic cell rate algorithm of ITU-T I.371), so it does not drift.
func TokenBucket(n int64, period time.Duration, burst int64) Limit {
	return of(limits.Spec{Algorithm: limits.TokenBucket, Permits: n, Period: period, Burst: burst})
}

func of(s limits.Spec) Limit { return Limit(limits.Of(s)) }

// And joins up to 4 limits: permits are taken from all of them or from none, in one step. The limits must differ in algorithm or period.
func (l Limit) And(other Limit) Limit { return Limit(limits.Limit(l).And(limits.Limit(other))) }
