package ratelimit

import (
	"hash/maphash"
	"math"

	"github.com/gresil/gresil/internal/limits"
)

// takeOne is what Apply does for a Take of at least one permit in the most common case: one
// bucket or fixed window, which the key has a word of and nothing else, and no slot to be made or
// swept. Otherwise it returns false, and has done nothing. It spares the account that
// the general way copies; the limiter counts in the shard, under its lock, and not with an atomic
// (BenchmarkTake). Unless refuse is set, a refusal is false, and not counted.
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

// clock is a time for takeOne that stands for that of the table, which it reads under the lock. No
// time is before that of the take before; and if many goroutines take of one key, one of them
// sleeps while another works, rather than that they disturb each other between the locks.
const clock = math.MinInt64
