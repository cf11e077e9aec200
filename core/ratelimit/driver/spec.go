package driver

import "time"

// Algorithm is how a [Spec] counts.
type Algorithm uint8

// The algorithms.
const (
	FixedWindow Algorithm = iota
	TokenBucket
	SlidingWindow
	SlidingCounter
	SlidingLog
)

// MaxLimits is how many limits hold a key at a time, and MaxCounts how many counts a key
// keeps.
const (
	MaxLimits = 4
	MaxCounts = 8
)

// A Spec is one limit in numbers. It is valid and has no defaults left to fill in.
type Spec struct {
	Algorithm Algorithm
	Permits   int64
	Period    time.Duration
	Burst     int64 // of a TokenBucket
	Segments  int   // of a SlidingWindow
	Aligned   bool  // of a FixedWindow
}

// capacity returns the highest cost that can be allowed at once.
func (s Spec) capacity() int64 {
	if s.Algorithm == TokenBucket {
		return s.Burst
	}
	return s.Permits
}

// Pairs reports whether s can replace other as a part of several limits: whether they have
// everything in common except the number of permits.
func (s Spec) Pairs(other Spec) bool {
	s.Permits, s.Burst, other.Permits, other.Burst = 0, 0, 0, 0
	return s == other
}
