package breaker

import "time"

// counts are calls by how they ended.
type counts struct{ calls, failures int }

// rate is the share of failures. The division is correctly rounded, so that it
// equals a threshold that was written as a decimal exactly when it should.
func (c counts) rate() float64 {
	if c.failures == 0 {
		return 0
	}
	return float64(c.failures) / float64(c.calls)
}

// A ring remembers how the last calls ended, one bit each.
type ring struct {
	counts
	size int
	next int
	bits []uint64 // set: failed
}

func newRing(size int) ring { return ring{size: size, bits: make([]uint64, (size+63)/64)} }

func (r *ring) add(failed bool) {
	word, bit := &r.bits[r.next>>6], uint64(1)<<(r.next&63)
	if *word&bit != 0 { // only where the ring is full: it is cleared else
		*word &^= bit
		r.failures--
	}
	if failed {
		*word |= bit
		r.failures++
	}
	if r.calls < r.size {
		r.calls++
	}
	if r.next++; r.next == r.size {
		r.next = 0
	}
}

// calm tells whether a success would leave the ring as good as it is: it is full,
// without a failure, and which of its equal bits is next makes no difference.
func (r *ring) calm() bool { return r.failures == 0 && r.calls == r.size }

func (r *ring) clear() {
	clear(r.bits)
	r.counts, r.next = counts{}, 0
}

const bucketCount = 10

// buckets count the calls of a time, in tenths of it.
type buckets struct {
	counts // the sum
	width  time.Duration
	newest int64 // number of the present tenth
	each   [bucketCount]counts
}

// turn drops the tenths that are over at now.
func (b *buckets) turn(now time.Duration) {
	present := int64(now / b.width)
	if present-b.newest >= bucketCount {
		b.clear()
		b.newest = present
	}
	for b.newest < present {
		b.newest++
		old := &b.each[b.newest%bucketCount]
		b.calls -= old.calls
		b.failures -= old.failures
		*old = counts{}
	}
}

func (b *buckets) add(now time.Duration, failed bool) {
	b.turn(now)
	present := &b.each[b.newest%bucketCount]
	present.calls++
	b.calls++
	if failed {
		present.failures++
		b.failures++
	}
}

func (b *buckets) clear() { b.counts, b.each = counts{}, [bucketCount]counts{} }
