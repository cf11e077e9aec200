package breaker

import (
	"math"
	"time"
)

// counts are numbers of calls by outcome.
type counts struct{ calls, failures, slow int }

// rate is n divided by the number of calls. The division is correctly rounded, so that the result equals a limit that is written as a
// decimal exactly when it should.
func rate(n, calls int) float64 { return float64(n) / float64(max(1, calls)) }

// add adds a call, or removes it if by is -1.
func (c *counts) add(failed, slow bool, by int) {
	if c.calls += by; failed {
		c.failures += by
	}
	if slow {
		c.slow += by
	}
}

// plus adds other, multiplied by the factor by.
func (c *counts) plus(other counts, by int) {
	c.calls += by * other.calls
	c.failures += by * other.failures
	c.slow += by * other.slow
}

// resize makes the empty window that the rules need.
func (b *Breaker) resize() {
	if b.rules.WindowTime > 0 {
		b.ring, b.buckets = ring{}, &buckets{width: b.rules.WindowTime / bucketCount, folded: b.calm.Load()}
		b.window = &b.buckets.counts
		return
	}
	b.ring, b.buckets = ring{each: make([]ended, b.rules.Window)}, nil
	b.window = &b.ring.counts
}

const (
	forever = math.MaxInt64 // without a WindowTime
	settled = 16            // successes in a row after which a breaker with a WindowTime can be calm: a change costs more than some locks
)

// isCalm reports whether a success that is not slow would change nothing but a number of calls. A ring must be full of such calls, so that
// it stays as it is. In a time window no success may open the breaker before the present tenth is over: from MinCalls on, each one lowers
// the rates.
func (b *Breaker) isCalm() bool {
	c := b.window
	if b.buckets == nil {
		return c.calls == len(b.ring.each) && c.failures == 0 && c.slow == 0
	}
	return b.row <= -settled && c.calls >= b.rules.MinCalls && b.far()
}

// A ring keeps the outcomes of the last calls.
type ring struct {
	counts
	next int
	each []ended
}

type ended struct{ failed, slow bool }

// add adds a call. If the ring is full, it replaces the oldest one.
func (r *ring) add(failed, slow bool) {
	if oldest, is := &r.each[r.next], (ended{failed, slow}); r.calls < len(r.each) {
		r.counts.add(failed, slow, 1)
		*oldest = is
	} else if *oldest != is {
		r.counts.add(oldest.failed, oldest.slow, -1)
		r.counts.add(failed, slow, 1)
		*oldest = is
	}
	if r.next++; r.next == len(r.each) {
		r.next = 0
	}
}

const bucketCount = 10

// buckets count the calls of a period, in tenths of it.
type buckets struct {
	counts // the sum of each
	width  time.Duration
	newest int64         // number of the present tenth
	over   time.Duration // when that tenth is over
	each   [bucketCount]counts
	folded uint64 // the value of Breaker.calm at the last turn
}

// turn adds the successes that calm has counted to the tenth in which they ended, and drops the tenths that are over at now.
func (b *buckets) turn(now time.Duration, calm uint64) {
	ended := counts{calls: int(calm - b.folded)}
	b.each[b.newest%bucketCount].plus(ended, 1)
	b.plus(ended, 1)
	b.folded = calm
	if now < b.over {
		return
	}
	present := int64(now / b.width)
	for b.newest = max(b.newest, present-bucketCount); b.newest < present; {
		b.newest++
		old := &b.each[b.newest%bucketCount]
		b.plus(*old, -1)
		*old = counts{}
	}
	b.over = time.Duration(b.newest+1) * b.width
}

// add adds a call to the present tenth: see turn.
func (b *buckets) add(failed, slow bool) {
	b.each[b.newest%bucketCount].add(failed, slow, 1)
	b.counts.add(failed, slow, 1)
}
