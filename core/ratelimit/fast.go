package ratelimit

import (
	"hash/maphash"
	"math"

	"github.com/gresil/gresil/internal/limits"
)

// takeOne is a short cut for the most common operation: a Take of at least one permit of a bucket or a fixed window, of a key that
// has a slot with a word of this limit. Otherwise it returns false, and has done nothing. It copies no account, and counts in the
// shard, under its lock, instead of with an atomic (BenchmarkTake). Unless refuse is set, it returns false for a refusal too, and does
// not count it.
func (t *table) takeOne(now int64, key string, p *limits.Rule, cost int64, refuse bool, r *Result) bool {
	if cost <= 0 || cost > p.Capacity || t.store.closed.Load() {
		return false
	}
	hash := maphash.String(t.seed, key)
	s := t.shard(hash)
	s.mu.Lock() // nothing of the user's is called
	i, found := s.find(hash)
	if now == clock {
		now = t.now()
	}
	now = max(now, s.last)
	if !found || !s.slots[i].is(p.Number.Load()) || now-s.swept > p.Horizon || now >= t.due.Load() {
		s.mu.Unlock()
		return false
	}
	if word := &s.slots[i].word; p.Spec.Algorithm == limits.TokenBucket {
		p.TakeBucket(word, now, cost, r)
	} else if !p.TakeWindow(word, now, cost, r) {
		s.mu.Unlock()
		return false
	}
	s.last = now
	if r.Allowed {
		s.allowed++
	} else if refuse {
		s.rejected++
	}
	s.mu.Unlock()
	return r.Allowed || refuse
}

// clock is a time for takeOne that means now: takeOne reads the clock under the lock. So times never go back from one take to the next,
// and goroutines that take of one key do not compete between two locks.
const clock = math.MinInt64
