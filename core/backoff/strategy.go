package backoff

import (
	"cmp"
	"math"
	"math/rand/v2"
	"time"

	"github.com/gresil/gresil/internal/validate"
)

const (
	defaultDelay = 500 * time.Millisecond
	defaultMax   = time.Minute
)

// A Strategy computes delays. It must be fast, and must not wait itself.
//
// If a Strategy has a method Validate() error, as those of this package have, the Validate of a Config that uses it
// calls that method.
type Strategy interface {
	// Next returns the delay number n, from 1. prev is the previous delay, or 0. A result below 0 counts as 0.
	Next(n int, prev time.Duration) time.Duration
}

// Constant is always the same delay. The zero value does not wait.
type Constant struct {
	// Delay is the delay. It must not be negative.
	Delay time.Duration
}

// Next returns Delay.
func (s Constant) Next(int, time.Duration) time.Duration { return s.Delay }

// Validate reports a Delay that cannot be used.
func (s Constant) Validate() error {
	check := validate.Of("backoff.Constant")
	check.That(s.Delay >= 0, "Delay", s.Delay, "must be >= 0")
	return check.Err()
}

// Linear grows by the same step each time. The zero value is 500 ms, 1 s, 1.5 s, at most 1 minute, with jitter.
type Linear struct {
	// Delay is the first delay. If zero, it is 500 milliseconds. It must not be negative.
	Delay time.Duration
	// Step is added each time. If zero, it is Delay. It must not be negative.
	Step time.Duration
	// Max is the longest delay. If zero, it is 1 minute, or Delay if that is more. It must not be negative.
	Max time.Duration
	// Jitter is the part of each delay that is random, so that callers do not return at the same time: with 1 a delay is
	// between 0 and its full length. If zero, it is 0.5. If negative, there is no jitter.
	Jitter float64
}

// Next returns the delay number n.
func (s Linear) Next(n int, _ time.Duration) time.Duration {
	first := cmp.Or(s.Delay, defaultDelay)
	return draw(float64(first)+float64(cmp.Or(s.Step, first))*float64(max(0, n-1)), first, s.Max, s.Jitter)
}

// Validate reports every field that cannot be used, joined.
func (s Linear) Validate() error {
	check := validate.Of("backoff.Linear")
	check.That(s.Step >= 0, "Step", s.Step, "must be >= 0 (0 means Delay)")
	return growing(check, s.Delay, s.Max, s.Jitter)
}

// Exponential grows by the same factor each time. The zero value is 500 ms, 1 s, 2 s, at most 1 minute, with jitter.
type Exponential struct {
	// Delay is the first delay. If zero, it is 500 milliseconds. It must not be negative.
	Delay time.Duration
	// Factor is the growth. If zero, it is 2. Otherwise it must be at least 1.
	Factor float64
	// Max is the longest delay. If zero, it is 1 minute, or Delay if that is more. It must not be negative.
	Max time.Duration
	// Jitter is the part of each delay that is random, so that callers do not return at the same time: with 1 a delay is
	// between 0 and its full length. If zero, it is 0.5. If negative, there is no jitter.
	Jitter float64
}

// Next returns the delay number n.
func (s Exponential) Next(n int, _ time.Duration) time.Duration {
	first := cmp.Or(s.Delay, defaultDelay)
	return draw(float64(first)*math.Pow(cmp.Or(s.Factor, 2), float64(max(0, n-1))), first, s.Max, s.Jitter)
}

// Validate reports every field that cannot be used, joined.
func (s Exponential) Validate() error {
	check := validate.Of("backoff.Exponential")
	check.That(s.Factor == 0 || s.Factor >= 1 && s.Factor <= math.MaxFloat64, "Factor", s.Factor, "must be >= 1 and finite (0 means 2)")
	return growing(check, s.Delay, s.Max, s.Jitter)
}

// Func is a function as a Strategy.
type Func func(n int, prev time.Duration) time.Duration

// Next calls f.
func (f Func) Next(n int, prev time.Duration) time.Duration { return f(n, prev) }

// growing reports fields that cannot be used, of those that Linear and Exponential have in common.
func growing(check *validate.Check, delay, limit time.Duration, jitter float64) error {
	check.That(delay >= 0, "Delay", delay, "must be >= 0 (0 means 500ms)")
	check.That(limit >= 0, "Max", limit, "must be >= 0 (0 means 1m0s)")
	check.That(jitter <= 1, "Jitter", jitter, "must be <= 1 (0 means 0.5, less means none)")
	return check.Err()
}

// draw returns ns, at most limit, less a random part.
func draw(ns float64, first, limit time.Duration, jitter float64) time.Duration {
	d := cmp.Or(limit, max(defaultMax, first))
	if ns < float64(d) {
		d = time.Duration(math.Round(ns))
	}
	if jitter = cmp.Or(jitter, 0.5); jitter <= 0 {
		return d
	}
	return d - time.Duration(rand.Float64()*jitter*float64(d)) //nolint:gosec // jitter keeps no secret
}
