package breaker

import "time"

// counts are calls by how they ended.
type counts struct {
	calls, failures    int
	slow, slowFailures int
}

// rate is the share of n of the calls. The division is correctly rounded, so that it
// equals a threshold that was written as a decimal exactly when it should.
func rate(n, calls int) float64 {
	if n == 0 {
		return 0
	}
	return float64(n) / float64(calls)
}

// add adds by calls of one kind to all but their number.
func (c *counts) add(failed, slow bool, by int) {
	if failed {
		c.failures += by
	}
	if slow {
		c.slow += by
		if failed {
			c.slowFailures += by
		}
	}
}

// plus adds all of another.
func (c *counts) plus(other counts) {
	c.calls += other.calls
	c.failures += other.failures
	c.slow += other.slow
	c.slowFailures += other.slowFailures
}

func (c *counts) minus(other counts) {
	c.calls -= other.calls
	c.failures -= other.failures
	c.slow -= other.slow
	c.slowFailures -= other.slowFailures
}

// A ring remembers how the last calls ended, a bit or two each.
type ring struct {
	counts
	size   int
	next   int
	failed []uint64
	slow   []uint64 // nil where no call is
}

func newRing(size int, slow bool) ring {
	words := (size + 63) / 64
	r := ring{size: size, failed: make([]uint64, words)}
	if slow {
		r.slow = make([]uint64, words)
	}
	return r
}

// add adds a call. If the ring is full, it replaces the oldest one; otherwise that bit
// is clear.
func (r *ring) add(failed, slow bool) {
	i, bit := r.next>>6, uint64(1)<<(r.next&63)
	wasFailed, wasSlow := swap(&r.failed[i], bit, failed), false
	if r.slow != nil {
		wasSlow = swap(&r.slow[i], bit, slow)
	}
	if wasFailed || wasSlow {
		r.counts.add(wasFailed, wasSlow, -1)
	}
	if failed || slow {
		r.counts.add(failed, slow, 1)
	}
	if r.calls < r.size {
		r.calls++
	}
	if r.next++; r.next == r.size {
		r.next = 0
	}
}

// swap sets or clears a bit, and returns its old value.
func swap(word *uint64, bit uint64, set bool) (was bool) {
	was = *word&bit != 0
	if was != set {
		*word ^= bit
	}
	return was
}

// oldest counts the n calls that are replaced first. None where n is not above 0.
func (r *ring) oldest(n int) (c counts) {
	r.each(n, func(failed, slow bool) {
		c.calls++
		c.add(failed, slow, 1)
	})
	return c
}

// each calls f for the n oldest calls, in order.
func (r *ring) each(n int, f func(failed, slow bool)) {
	for k := range n {
		i := (r.next - r.calls + k + r.size) % r.size
		word, bit := i>>6, uint64(1)<<(i&63)
		f(r.failed[word]&bit != 0, r.slow != nil && r.slow[word]&bit != 0)
	}
}

// calm reports whether a success that is not slow would leave the ring as it is: the
// ring is full of such calls, so it makes no difference which bit is next.
func (r *ring) calm() bool { return r.failures == 0 && r.counts.slow == 0 && r.calls == r.size }

func (r *ring) clear() {
	clear(r.failed)
	clear(r.slow)
	r.counts, r.next = counts{}, 0
}

const bucketCount = 10

// buckets count the calls of a time, in tenths of it.
type buckets struct {
	counts // the sum
	width  time.Duration
	newest int64         // number of the present tenth
	over   time.Duration // when that is over
	each   [bucketCount]counts
}

func newBuckets(whole time.Duration) *buckets { return &buckets{width: whole / bucketCount} }

// turn drops the tenths that are over at now.
func (b *buckets) turn(now time.Duration) {
	if now < b.over {
		return
	}
	present := int64(now / b.width)
	if present-b.newest >= bucketCount {
		b.clear()
		b.newest = present
	}
	for b.newest < present {
		b.newest++
		old := &b.each[b.newest%bucketCount]
		b.minus(*old)
		*old = counts{}
	}
	b.over = time.Duration(b.newest+1) * b.width
}

func (b *buckets) add(now time.Duration, failed, slow bool) {
	b.turn(now)
	present := &b.each[b.newest%bucketCount]
	present.calls++
	b.calls++
	if failed || slow {
		present.add(failed, slow, 1)
		b.counts.add(failed, slow, 1)
	}
}

// refit returns buckets of another time. A tenth goes to where it began: no call
// stays longer than the time.
func (b *buckets) refit(whole, now time.Duration) *buckets {
	now = max(now, time.Duration(b.newest)*b.width) // the clock was read before the lock was had
	b.turn(now)
	to := newBuckets(whole)
	to.newest = int64(now / to.width)
	for tenth := max(0, b.newest-bucketCount+1); tenth <= b.newest; tenth++ {
		began := int64(time.Duration(tenth) * b.width / to.width)
		if to.newest-began < bucketCount {
			old := b.each[tenth%bucketCount]
			to.each[began%bucketCount].plus(old)
			to.plus(old)
		}
	}
	return to
}

func (b *buckets) forgetSlow() {
	b.slow, b.slowFailures = 0, 0
	for i := range b.each {
		b.each[i].slow, b.each[i].slowFailures = 0, 0
	}
}

func (b *buckets) clear() { b.counts, b.each = counts{}, [bucketCount]counts{} }
