package ratelimit

import (
	"hash/maphash"
	"time"

	"github.com/gresil/gresil/core/ratelimit/driver"
)

// Owe has a key owe, to each of the limits of a plan, what it is known to owe elsewhere:
// so many permits, all of which are back at a time; a bucket, which pays evenly, as much
// as it pays until then. A window that is aligned stays so, and gives back at the end of
// the one that is on. Owe never forgives: a key that owes more already stays as it is.
//
// The tables of a [Memory] have this method, for stores that keep a share in memory.
func (t *table) Owe(key string, id driver.ID, permits int64, until time.Time) error {
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
	k.load(nil)
	k.changed = k.account.Owe(p, driver.Debt{Until: int64(until.Sub(t.base)), Permits: permits}, k.now)
	k.flush()
	return nil
}
