package limits

import (
	"fmt"
	"slices"
	"time"
	"unique"
)

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

// A Limit is the numbers of a limit, or of several that hold together. ratelimit.Limit is a type defined by it, so packages of this
// module convert one to the other, and users see no field. The zero Limit is 1,000 permits a minute.
type Limit struct {
	spec Spec
	also unique.Handle[Limit] // what And has joined; the zero handle is nothing
}

// Of returns a limit.
func Of(s Spec) Limit {
	if s == (Spec{}) {
		s.Period = -1 // the zero Limit is valid
	}
	return Limit{spec: s}
}

// And joins limits.
func (l Limit) And(other Limit) Limit {
	if l.also != (unique.Handle[Limit]{}) {
		other = l.also.Value().And(other)
	}
	return Limit{l.spec, unique.Make(other)}
}

// Specs returns the limits that And has joined, in their order.
func (l Limit) Specs() []Spec {
	if l.spec == (Spec{}) {
		l.spec = Spec{Permits: 1000, Period: time.Minute}
	}
	if l.also == (unique.Handle[Limit]{}) {
		return []Spec{l.spec}
	}
	return append([]Spec{l.spec}, l.also.Value().Specs()...)
}

// Refuse says why a limit cannot be used, or returns "".
func (l Limit) Refuse() string {
	all := l.Specs()
	for i, s := range all {
		if reason := s.refuse(MaxPeriod); reason != "" {
			return reason
		}
		if (Clock{}).Rule(s) == nil {
			return fmt.Sprintf("must have a burst that can be counted exactly at %d per %v: "+
				"a smaller one, or permits that share a factor with the period", s.Permits, s.Period)
		}
		if slices.ContainsFunc(all[:i], func(other Spec) bool {
			other.Permits, other.Burst, other.Segments = s.Permits, s.Burst, s.Segments
			return s == other
		}) {
			return "must join limits that differ in the algorithm or the period"
		}
	}
	if len(all) > MaxLimits {
		return fmt.Sprintf("must join at most %d limits", MaxLimits)
	}
	return ""
}

// refuse says why one limit cannot be used; longest bounds the time in which a bucket fills.
func (s Spec) refuse(longest time.Duration) string {
	most := int64(MaxPermits)
	if s.Algorithm == SlidingLog {
		most = MaxLogPermits
	}
	fill, ok := FillTime(s) // also of a limit that is refused
	switch {
	case s.Algorithm > SlidingLog:
		return "must have a known algorithm"
	case s.Permits < 1 || s.Permits > most:
		return fmt.Sprintf("must have 1 to %d permits", most)
	case s.Period < 1 || s.Period > MaxPeriod:
		return fmt.Sprintf("must have a period of 1ns to %v", MaxPeriod)
	case s.Algorithm == TokenBucket && (s.Burst < 1 || s.Burst > MaxPermits):
		return fmt.Sprintf("must have a burst of 1 to %d", int64(MaxPermits))
	case s.Algorithm == TokenBucket && (!ok || fill > longest):
		return fmt.Sprintf("must have a burst that fills within %v", longest)
	case s.Algorithm == SlidingWindow && (s.Segments < 2 || s.Segments > maxSegments || int64(s.Period)%int64(s.Segments) != 0):
		return fmt.Sprintf("must have 2 to %d segments, each of whole nanoseconds", maxSegments)
	}
	return ""
}
