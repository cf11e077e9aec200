package backoff

import (
	"math"
	"math/rand/v2"
	"sync"
	"time"
)

// A Strategy computes the wait before a retry. It must be safe for use by several
// goroutines at once.
type Strategy interface {
	// Delay returns the wait before retry n, counted from 1; n below 1 counts as
	// 1. prev is the result of the same strategy for retry n-1, and 0 for the
	// first. A negative result counts as 0.
	Delay(n int, prev time.Duration) time.Duration
}

// Func is a Strategy made of a function. A negative result counts as 0.
type Func func(n int, prev time.Duration) time.Duration

// Delay returns f(n, prev), with n at least 1.
func (f Func) Delay(n int, prev time.Duration) time.Duration {
	return max(0, f(max(1, n), prev))
}

// None is the Strategy that never waits.
type None struct{}

// Delay returns 0.
func (None) Delay(int, time.Duration) time.Duration { return 0 }

// Seeded returns a source for the jitter that always draws the same numbers for
// the same seed, as a test wants it. It is safe for concurrent use.
func Seeded(seed uint64) func() float64 {
	var mu sync.Mutex
	r := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // jitter keeps no secret
	return func() float64 {
		mu.Lock()
		defer mu.Unlock()
		return r.Float64()
	}
}

// saturate rounds nanoseconds to a duration between 0 and the longest one.
func saturate(ns float64) time.Duration {
	switch {
	case !(ns > 0): // NaN too
		return 0
	case ns >= math.MaxInt64:
		return math.MaxInt64
	}
	return time.Duration(math.Round(ns))
}

// capped is d, at most limit where there is one, and never negative.
func capped(d, limit time.Duration) time.Duration {
	if limit > 0 {
		d = min(d, limit)
	}
	return max(0, d)
}

// spread draws uniformly from [d(1-f), d(1+f)), the upper end at most limit.
func spread(d, limit time.Duration, f float64, random func() float64) time.Duration {
	if !(f > 0) || d <= 0 {
		return d
	}
	f = min(f, 1)
	return draw(max(0, d-saturate(float64(d)*f)), capped(saturate(float64(d)*(1+f)), limit), random)
}

// draw draws uniformly from [from, to). A source of 1 or above, which no source should
// return, draws to.
func draw(from, to time.Duration, random func() float64) time.Duration {
	if random == nil {
		random = rand.Float64
	}
	switch r := random(); {
	case !(r > 0) || to <= from: // NaN too
		return from
	case r < 1:
		return from + min(saturate(math.Floor(r*float64(to-from))), to-from-1)
	}
	return to
}
