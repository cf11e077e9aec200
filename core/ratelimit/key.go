package ratelimit

import (
	"slices"

	"github.com/gresil/gresil/core/ratelimit/driver"
	"github.com/gresil/gresil/internal/limits"
)

// keyed is one key during an operation, with its shard locked: its account, read from the slot and
// written back when it changes. A dry run writes nothing.
type keyed struct {
	table   *table
	shard   *shard
	hash    uint64
	now     int64
	account limits.Account
	loaded  bool
	changed bool
}

// load reads the account. If the key is not in the shard, it might have been evicted: its usage is
// then read from the sketch.
func (k *keyed) load(change *driver.Change) {
	if k.loaded {
		return
	}
	k.loaded = true
	s := k.shard
	if s.sketch != nil {
		if d := s.sketch.get(k.hash >> tagShift); d.Until > k.now {
			k.account.Owed = d
		}
	}
	i, found := s.find(k.hash)
	if !found {
		return
	}
	n := &s.slots[i]
	s.read(&k.account, n, k.table.plans.All())
	if n.tag&stale != 0 && change != nil {
		k.account.Change(change, k.table.plans.All(), min(k.now, max(int64(change.At.Sub(k.table.base)), k.table.marked.Load())))
	}
}

// apply does an operation, and writes the account back if it changed.
func (k *keyed) apply(p *limits.Plan, op *driver.Op) (r Result, changed bool) {
	r, changed = k.decide(p, op)
	k.flush()
	return r, changed
}

// decide does an operation on the account alone.
func (k *keyed) decide(p *limits.Plan, op *driver.Op) (r Result, changed bool) {
	k.load(op.Change)
	r, changed = k.account.Apply(p, k.now, op)
	k.changed = k.changed || changed
	return r, changed
}

// flush writes the account if it has changed.
func (k *keyed) flush() {
	if k.changed {
		k.changed = false
		k.shard.write(k.table, k.hash, k.now, k.account.Counts())
	}
}

// copy is a dry run.
func (k *keyed) copy() *keyed {
	k.load(nil)
	c := &keyed{table: k.table, shard: k.shard, hash: k.hash, now: k.now, loaded: true}
	c.account = k.account
	for i := range c.account.Counts() {
		count := &c.account.Counts()[i]
		count.List = slices.Clone(count.List)
	}
	return c
}
