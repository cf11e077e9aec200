package ratelimit

import (
	"slices"

	"github.com/gresil/gresil/core/ratelimit/driver"
)

// keyed is one key during an operation, with its shard locked: its account, read from the slot and
// written back when it changes. A dry run writes nothing.
type keyed struct {
	table   *table
	shard   *shard
	hash    uint64
	now     int64
	account driver.Account
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
	s.read(&k.account, n, *k.table.plans.Load())
	if n.tag&stale != 0 && change != nil {
		k.account.Change(change, *k.table.plans.Load(), min(k.now, max(int64(change.At.Sub(k.table.base)), k.table.marked.Load())))
	}
}

// apply does an operation, and writes the account back if it changed.
func (k *keyed) apply(p *driver.Plan, op *driver.Op) (r Result, changed bool) {
	switch k.load(op.Change); op.Kind {
	case driver.Refund:
		changed = k.account.Refund(k.now, op)
	case driver.Reset:
		changed = true
		k.account = driver.Account{}
	case driver.Take, driver.TakeAtMost, driver.Reserve, driver.Check, driver.Drain:
		if r, changed = k.decide(p, op); changed {
			k.flush()
		}
		return r, changed
	}
	k.changed = k.changed || changed
	r, _ = k.decide(p, &driver.Op{})
	k.flush()
	return r, changed
}

// decide does an operation on the account alone.
func (k *keyed) decide(p *driver.Plan, op *driver.Op) (r Result, changed bool) {
	k.load(op.Change)
	r, changed = k.account.Decide(p, k.now, op)
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
