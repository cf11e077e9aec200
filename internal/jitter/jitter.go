// Package jitter adds the jitter of a backoff to a longer wait that a server asks for.
package jitter

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/gresil/gresil/core/backoff"
)

// Above returns drawn, the delay number n of s, after prev. If floor is longer, it returns floor plus the random part of drawn, so that callers
// with the same floor do not return together. For a nil strategy, and one that is not of package backoff, the random part is
// unknown: Above adds a random duration below drawn.
func Above(floor time.Duration, s backoff.Strategy, n int, prev, drawn time.Duration) time.Duration {
	if floor <= drawn {
		return drawn
	}
	return floor + min(part(s, n, prev, drawn), math.MaxInt64-max(0, floor))
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
	case interface{ Shortest() time.Duration }: // of a type that is not exported
		return max(0, drawn-s.Shortest())
	default:
		return rand.N(drawn) //nolint:gosec // jitter keeps no secret
	}
	if jitter == 0 {
		jitter = 0.5
	}
	return max(0, drawn-longest+time.Duration(max(0, jitter)*float64(longest)))
}
