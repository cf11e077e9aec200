package ratelimit

import (
	"hash/maphash"
	"time"

	"github.com/gresil/gresil/core/ratelimit/driver"
	"github.com/gresil/gresil/internal/limits"
)

// Owe charges a key usage that is known from elsewhere: see [driver.OwingTable].
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
	k.changed = k.account.Owe(p, limits.Debt{Until: int64(until.Sub(t.base)), Permits: permits}, k.now)
	k.flush()
	return nil
}
