package ratelimit

import (
	"hash/maphash"
	"time"
)

// Owe has a key owe, to each of the limits of a plan, what it is known to owe elsewhere:
// so many permits, all of which are back at a time; a bucket, which pays evenly, as much
// as it pays until then. A window that is aligned stays so, and gives back at the end of
// the one that is on. Owe never forgives: a key that owes more already stays as it is.
//
// The tables of a [Memory] have this method, for stores that keep a share in memory.
func (t *table) Owe(key string, id PlanID, permits int64, until time.Time) error {
	p, err := t.planFor(id, permits)
	if err != nil {
		return err
	}
	t.sweep(t.now())
	hash := maphash.String(t.seed, key)
	s := t.shard(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	k := keyed{table: t, shard: s, hash: hash, now: s.tick(t, t.now())}
	for _, part := range p.parts {
		end := int64(until.Sub(t.base))
		if end > k.now && part.limit.Aligned {
			end = part.align(k.now) + int64(part.limit.Period)
		}
		if end <= k.now {
			continue
		}
		h, owed := k.get(part), part.owing(end, permits, k.now)
		more := part.taken(&owed, k.now) > part.taken(&h.st, k.now)
		if part.bucket() {
			more = end > part.fullAt(&h.st, k.now)
		}
		if more {
			owed.from = part
			h.st, h.changed = owed, true
		}
	}
	k.flush()
	return nil
}
