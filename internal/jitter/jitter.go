// Package jitter adds jitter to a wait that a server asks for.
package jitter

import (
	"cmp"
	"math"
	"math/rand/v2"
	"time"

	"github.com/gresil/gresil/core/backoff"
)

// Above returns drawn, the delay number n of s, after prev. If floor is longer, it returns floor plus the random part of drawn, so that
// callers with the same floor do not return together. The random part of a strategy that is not of package backoff is unknown: Above
// adds a random duration below drawn.
func Above(floor time.Duration, s backoff.Strategy, n int, prev, drawn time.Duration) time.Duration {
	if floor <= drawn {
		return drawn
	}
	return floor + min(part(s, n, prev, drawn), math.MaxInt64-max(0, floor))
}

// Told returns a wait that a server has asked for, made longer by up to a tenth of it, and by at most a minute. So callers that were told
// the same time do not return together, also if their backoff has no jitter.
func Told(wait time.Duration) time.Duration {
	return wait + min(rand.N(min(max(0, wait)/10, time.Minute)+1), math.MaxInt64-max(0, wait)) //nolint:gosec // jitter keeps no secret
}

// part returns the random part of drawn.
func part(s backoff.Strategy, n int, prev, drawn time.Duration) time.Duration {
	if drawn <= 0 {
		return 0
	}
	var longest time.Duration // that s can draw
	var jitter float64
	switch s := s.(type) {
	case backoff.Constant:
		return 0
	case backoff.Linear:
		jitter, s.Jitter = s.Jitter, -1
		longest = s.Next(n, prev)
	case backoff.Exponential:
		jitter, s.Jitter = s.Jitter, -1
		longest = s.Next(n, prev)
	default:
		return rand.N(drawn) //nolint:gosec // jitter keeps no secret
	}
	return max(0, drawn-longest+time.Duration(max(0, cmp.Or(jitter, 0.5))*float64(longest)))
}
