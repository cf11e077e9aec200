// Package jitter keeps the jitter of a backoff where a server asks for a longer wait.
package jitter

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/gresil/gresil/core/backoff"
)

// Above returns drawn, the result of s for retry n and prev. If floor is longer, it returns floor plus
// the random part of drawn, so that callers with the same floor do not return together. For a nil
// strategy, and one that is not of package backoff, the random part is unknown: Above adds a random
// duration below drawn.
func Above(floor time.Duration, s backoff.Strategy, n int, prev, drawn time.Duration) time.Duration {
	if floor <= drawn {
		return drawn
	}
	return floor + min(part(s, n, prev, drawn), math.MaxInt64-max(0, floor))
}

func part(s backoff.Strategy, n int, prev, drawn time.Duration) time.Duration {
	if drawn <= 0 {
		return 0
	}
	shortest, known := shortest(s, n, prev)
	if !known {
		return rand.N(drawn) //nolint:gosec // jitter keeps no secret
	}
	return max(0, drawn-shortest)
}

// shortest returns the shortest wait that s can draw.
func shortest(s backoff.Strategy, n int, prev time.Duration) (time.Duration, bool) {
	least := func() float64 { return 0 }
	switch s := s.(type) {
	case backoff.Constant:
		s.Rand = least
		return s.Delay(n, prev), true
	case backoff.Linear:
		s.Rand = least
		return s.Delay(n, prev), true
	case backoff.Exponential:
		s.Rand = least
		return s.Delay(n, prev), true
	case backoff.Decorrelated:
		s.Rand = least
		return s.Delay(n, prev), true
	case *backoff.Constant:
		return shortest(*s, n, prev)
	case *backoff.Linear:
		return shortest(*s, n, prev)
	case *backoff.Exponential:
		return shortest(*s, n, prev)
	case *backoff.Decorrelated:
		return shortest(*s, n, prev)
	case interface {
		Shortest(n int, prev time.Duration) time.Duration
	}: // of a type that is not exported
		return s.Shortest(n, prev), true
	}
	return 0, false
}
