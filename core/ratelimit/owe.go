package ratelimit

import (
	"hash/maphash"
	"time"

	"github.com/gresil/gresil/core/ratelimit/driver"
)

// Owe charges a key usage that is known from elsewhere, under each limit of a plan: a number of
// permits, all of which come back by until. A bucket, which recovers evenly, is charged the usage
// that it recovers until then. An aligned window stays aligned, and its usage ends with the
// current window. Owe never lowers the usage of a key: a key with more usage stays as it is.
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
