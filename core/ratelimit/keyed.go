package ratelimit

import "slices"

// keyed is one key for the time of an operation, with its shard locked: its states
// as far as they were asked for, read from the slots and written back when they
// change. If it is a dry run, they are copies.
type keyed struct {
	table *table
	shard *shard
	plans []*plan
	hash  uint64
	now   int64
	dry   bool
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
	h.st = k.shard.state(k.plans, p, k.hash^p.salt, k.now)
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
	if op.Kind == Reset {
		k.reset(p, op.Past)
		r, _ = k.decide(p, Op{})
		return r, true
	}
	r, changed = k.decide(p, op)
	if changed {
		k.flush()
	}
	return r, changed
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
	r, changed = decide(parts, states[:len(parts)], p.capacityNow(parts), k.now, op)
	r.Plan = p.id
	if changed {
		for _, part := range parts {
			k.get(part).changed = true
		}
	}
	return r, changed
}

// capacityNow is the capacity, where parts may be others than those of p.
func (p *plan) capacityNow(parts []*plan) int64 {
	least := p.capacity
	if len(parts) == 0 || &parts[0] == &p.parts[0] {
		return least
	}
	least = parts[0].capacity
	for _, part := range parts[1:] {
		least = min(least, part.capacity)
	}
	return least
}

// effective are the parts of p, and in the place of some the limits that they have
// replaced, while the window is on in which they did. What a key owes under a kind
// of limit that p does not know goes over to the part that came in its place.
func (k *keyed) effective(parts []*plan, p *plan, past []Past) []*plan {
	copy(parts, p.parts)
	plans := *k.table.plans.Load() // past may be newer than k
	for _, was := range past {
		until := int64(was.Until.Sub(k.table.base))
		var gone []*plan // kinds that p does not know
		for _, old := range plans[was.Plan].parts {
			i := slices.IndexFunc(p.parts, func(part *plan) bool { return part.salt == old.salt })
			if i < 0 {
				gone = append(gone, old)
			} else if st := &k.get(old).st; parts[i] == p.parts[i] && st.from != parts[i] && old.began(st, k.now) <= until {
				parts[i] = old
			}
		}
		for i, part := range p.parts {
			isNew := !slices.ContainsFunc(plans[was.Plan].parts, func(old *plan) bool { return old.salt == part.salt })
			if len(gone) == 0 || !isNew || parts[i] != part {
				continue
			}
			old := gone[0]
			gone = gone[1:]
			switch h, from := k.get(part), k.get(old); {
			case h.st.from != nil:
			case old.began(&from.st, k.now) <= until:
				parts[i] = old
			default:
				h.st = part.migrate(old, &from.st, k.now)
			}
		}
	}
	return parts
}

// flush writes the states that have changed.
func (k *keyed) flush() {
	for h := range k.all {
		if h.changed && h.st.from != nil { // a refund to nothing changes nothing
			k.shard.store(k.table, k.plans, k.hash^h.salt, k.now, &h.st)
			h.changed = false
		}
	}
}

// reset forgets the key under p and what it has replaced.
func (k *keyed) reset(p *plan, past []Past) {
	drop := func(parts []*plan) {
		for _, part := range parts {
			k.shard.drop(k.table, k.plans, k.hash^part.salt)
		}
	}
	drop(p.parts)
	plans := *k.table.plans.Load()
	for _, was := range past {
		drop(plans[was.Plan].parts)
	}
	*k = keyed{table: k.table, shard: k.shard, plans: k.plans, hash: k.hash, now: k.now}
}
