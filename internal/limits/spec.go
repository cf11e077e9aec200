package limits

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

// A Spec is one limit in numbers. It is valid and has no defaults left to fill in.
type Spec struct {
	Algorithm Algorithm
	Permits   int64
	Period    time.Duration
	Burst     int64 // of a TokenBucket
	Segments  int   // of a SlidingWindow
	Aligned   bool  // of a FixedWindow
}
