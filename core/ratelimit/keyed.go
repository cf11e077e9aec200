package ratelimit

import "slices"

// keyed is one key for the time of an operation, with its shard locked: its states
// as far as they were asked for, read from the slots and written back when they
// change. If it is a dry run, they are copies.
type keyed struct {
	table *table
	shard *shard
	hash  uint64
	now   int64
	dry   bool
	moved bool // a debt, to another kind of limit
	room  [MaxLimits]held
	n     int // in use of room
	more  []*held
}

// held is what a key has under one kind of limit.
type held struct {
	salt    uint64
	st      state
	changed bool
}

// get returns the state of the key that p reads.
func (k *keyed) get(p *plan) *held {
	for h := range k.all {
		if h.salt == p.salt {
			return h
		}
	}
	var h *held
	if k.n < len(k.room) {
		h = &k.room[k.n]
		k.n++
	} else {
		h = new(held)
		k.more = append(k.more, h)
	}
	h.salt = p.salt
	h.st = k.shard.state(*k.table.plans.Load(), p, k.hash^p.salt, k.now)
	if k.dry {
		h.st.list = slices.Clone(h.st.list)
	}
	return h
}

// all are the states that were asked for.
func (k *keyed) all(yield func(*held) bool) {
	for i := range k.n {
		if !yield(&k.room[i]) {
			return
		}
	}
	for _, h := range k.more {
		if !yield(h) {
			return
		}
	}
}

// apply does an operation, and writes back what it changes.
func (k *keyed) apply(p *plan, op Op) (r Result, changed bool) {
	switch op.Kind {
	case Refund:
		changed = k.refund(op)
	case Reset:
		k.reset(p, op.Past)
		changed = true
	case Take, TakeAtMost, Reserve, Check, Drain:
		if r, changed = k.decide(p, op); changed || k.moved {
			k.flush()
		}
		return r, changed
	}
	r, _ = k.decide(p, Op{Past: op.Past})
	k.flush()
	return r, changed
}

// refund gives back to each limit that was charged.
func (k *keyed) refund(op Op) (changed bool) {
	plans := *k.table.plans.Load()
	for i, id := range op.Receipt.Plans {
		if id == 0 || int(id) >= len(plans) || len(plans[id].parts) != 1 {
			continue
		}
		if h := k.get(plans[id]); plans[id].refund(&h.st, k.now, op.Cost, &op.Receipt, i) {
			h.changed, changed = true, true
		}
	}
	return changed
}

// decide does an operation on the states alone.
func (k *keyed) decide(p *plan, op Op) (r Result, changed bool) {
	parts := p.parts
	var states [MaxLimits]*state
	var room [MaxLimits]*plan
	if len(op.Past) > 0 {
		parts = k.effective(room[:len(parts)], p, op.Past)
	}
	for i, part := range parts {
		states[i] = &k.get(part).st
	}
	r, changed = decide(parts, states[:len(parts)], p.capacity, k.now, op)
	r.Plan = p.id
	if changed {
		for _, part := range parts {
			k.get(part).changed = true
		}
	}
	return r, changed
}

// effective are the parts of p, and in the place of some the limits that they have
// replaced, while the window is on in which they did.
func (k *keyed) effective(parts []*plan, p *plan, past []Past) []*plan {
	for i := range p.parts {
		parts[i] = k.partOf(p, i, past)
	}
	return parts
}

// partOf is part i of p, or what it has replaced. What a key owes under a kind of
// limit that p does not know goes over to the part that came in its place.
func (k *keyed) partOf(p *plan, i int, past []Past) *plan {
	plans := *k.table.plans.Load() // past may be newer than k
	part := p.parts[i]
	for _, was := range slices.Backward(past) {
		old := plans[was.Plan].counterpart(p, i)
		if old == nil {
			break
		}
		st := &k.get(old).st
		if st.from == nil && st.until == 0 || st.from == part {
			break // the key has nothing from that time
		}
		if old.began(st, k.now) <= k.since(was) {
			part = old
			continue
		}
		if old.salt != part.salt {
			k.move(old, part)
		}
		break
	}
	return part
}

// move moves what a key owes under one kind of limit to another: so many permits are
// taken there, just now.
func (k *keyed) move(from, to *plan) {
	a, b := k.get(from), k.get(to)
	n := min(from.taken(&a.st, k.now), to.available(&b.st, k.now))
	if n > 0 {
		to.charge(&b.st, k.now, k.now, k.now, n, false)
	}
	a.st, b.changed = state{}, b.changed || n > 0
	a.changed, k.moved = true, true
}

// since is when a limit was replaced, on the clock of the table.
func (k *keyed) since(was Past) int64 { return int64(was.Until.Sub(k.table.base)) }

// counterpart is the part of p that part i of next has replaced: the one of the same
// kind or, of those whose kind is gone, the one in the same place among those whose
// kind is new. It may be nil.
func (p *plan) counterpart(next *plan, i int) *plan {
	in := func(parts []*plan, salt uint64) int {
		return slices.IndexFunc(parts, func(part *plan) bool { return part.salt == salt })
	}
	if j := in(p.parts, next.parts[i].salt); j >= 0 {
		return p.parts[j]
	}
	place := 0
	for _, part := range next.parts[:i] {
		if in(p.parts, part.salt) < 0 {
			place++
		}
	}
	for _, part := range p.parts {
		if in(next.parts, part.salt) >= 0 {
			continue
		}
		if place == 0 {
			return part
		}
		place--
	}
	return nil
}

// flush writes the states that have changed.
func (k *keyed) flush() {
	plans := *k.table.plans.Load()
	for h := range k.all {
		if !h.changed {
			continue
		}
		if h.changed = false; h.st.from == nil {
			k.shard.drop(k.table, plans, k.hash^h.salt)
		} else {
			k.shard.store(k.table, plans, k.hash^h.salt, k.now, &h.st)
		}
	}
	k.moved = false
}

// reset forgets the key under p and what it has replaced.
func (k *keyed) reset(p *plan, past []Past) {
	forget := func(parts []*plan) {
		for _, part := range parts {
			h := k.get(part)
			h.st, h.changed = state{}, true
		}
	}
	forget(p.parts)
	plans := *k.table.plans.Load()
	for _, was := range past {
		forget(plans[was.Plan].parts)
	}
}
