// Package jitter keeps the jitter of a backoff where a longer wait was told.
package jitter

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/gresil/gresil/core/backoff"
)

// Above returns drawn, the wait before retry n that s has drawn with prev, or a floor that is
// longer, and on top of that the random part of drawn: those who were told one time do not come back
// together. Of a strategy that is not of package backoff, or nil, the random part is not
// known: it is drawn from all of drawn.
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
