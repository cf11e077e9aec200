package backoff

import (
	"time"

	"github.com/gresil/gresil/internal/validate"
)

// Decorrelated draws each wait from [Base, 3 × the wait before], so that callers
// that began together drift apart.
type Decorrelated struct {
	// Base is the shortest wait. It must be above 0.
	Base time.Duration
	// Max is the longest wait, at least Base. If zero, there is no limit.
	Max time.Duration
	// Rand returns numbers from [0,1) and must be safe for concurrent use.
	// If nil, math/rand/v2 is used.
	Rand func() float64
}

// Delay draws from [Base, 3 × prev), the upper end at most Max. A prev below
// Base, as before the first retry, counts as Base.
func (s Decorrelated) Delay(_ int, prev time.Duration) time.Duration {
	base := max(0, s.Base)
	return draw(capped(base, s.Max), capped(saturate(3*float64(max(base, prev))), s.Max), s.Rand)
}

func (s Decorrelated) validate() error {
	check := validate.Of("backoff.Decorrelated")
	check.That(s.Base > 0, "Base", s.Base, "must be > 0")
	checkMax(check, s.Max, "Base", s.Base)
	return check.Err()
}

// FullJitter draws each wait from [0, d), where d is the result of s, and 0 if d is 0.
// As prev, s gets the drawn wait, not its own result. If random is nil, math/rand/v2 is
// used; another one must be safe for concurrent use.
func FullJitter(s Strategy, random func() float64) Strategy {
	return jittered{typ: "FullJitter", inner: s, random: random, least: 0}
}

// EqualJitter draws each wait from [d/2, d), where d is the result of s. As prev, s gets
// the drawn wait, not its own result. If random is nil, math/rand/v2 is used; another
// one must be safe for concurrent use.
func EqualJitter(s Strategy, random func() float64) Strategy {
	return jittered{typ: "EqualJitter", inner: s, random: random, least: 0.5}
}

type jittered struct {
	typ    string
	inner  Strategy
	random func() float64
	least  float64 // as a share of the whole
}

func (s jittered) Delay(n int, prev time.Duration) time.Duration {
	if s.inner == nil {
		return 0
	}
	d := max(0, s.inner.Delay(n, prev))
	least := saturate(s.least * float64(d))
	return max(least, min(d-1, draw(least, d, s.random)))
}

// Shortest is for internal/jitter.
func (s jittered) Shortest(n int, prev time.Duration) time.Duration {
	if s.inner == nil || s.least == 0 {
		return 0
	}
	return saturate(s.least * float64(s.inner.Delay(n, prev)))
}

func (s jittered) validate() error {
	check := validate.Of("backoff." + s.typ)
	check.That(s.inner != nil, "Strategy", nil, "must be a strategy")
	check.Part(Validate(s.inner))
	return check.Err()
}
