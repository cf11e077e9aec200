package limits

import (
	"math"
	"slices"
)

// A Count is the use of one limit by a key.
type Count struct {
	Rule *Rule
	State
	// Replaced is set when the limit was replaced and has not been in force since: the count
	// goes as soon as it has recovered.
	Replaced bool
	// Joined is set if the limit was in force for the last operation with others.
	Joined bool
	// Short is set if the limit was not in force and had fewer permits than were taken. Until the count has
	// recovered it takes no refunds, since the permits given back could be those that it has not counted.
	Short bool
}

// maxCounts is how many counts a key keeps.
const maxCounts = 8

// An Account is all that is kept of a key: a count for each limit that it was charged under,
// until the count has recovered. A take is charged to every count; only the limits in force
// refuse. See docs/adr/0006-a-key-keeps-its-counts.md.
type Account struct {
	Owed Debt // the debt of an account that was evicted

	counts [maxCounts]Count
	n      int  // counts in use
	added  bool // a count that has to be kept
}

// Counts returns the counts. They are valid until the account is changed.
func (a *Account) Counts() []Count { return a.counts[:a.n] }

// Load replaces all that is kept by counts.
func (a *Account) Load(counts []Count) { a.n = copy(a.counts[:], counts) }

// Add adds a count of a limit that has none.
func (a *Account) Add(c Count) {
	a.counts[a.n] = c
	a.n++
}

// Drop drops the counts for which that is true.
func (a *Account) Drop(is func(c Count) bool) {
	n := a.n
	a.n = 0
	for i := range n {
		if c := a.counts[i]; !is(c) {
			a.Add(c)
		}
	}
}

// A Debt is a number of permits, all of which are back at a time.
type Debt struct{ Until, Permits int64 }

// end is when a debt is over for a limit: one that is over much later is of another limit, and
// ends with one recovery; in an aligned window, no debt is over before the window.
func (d Debt) end(r *Rule, at int64) int64 {
	if recovery := r.alg.recovery(at); (d.Until-at)/reserveAhead > recovery || r.Spec.Aligned && d.Until < at+recovery {
		d.Until = at + recovery
	}
	if r.Spec.Algorithm == TokenBucket && d.Permits < r.Capacity {
		return min(d.Until, at+int64(r.bucket.after(d.Permits*r.bucket.cost, 0)))
	}
	return d.Until
}

// find returns the count of a limit, or nil.
func (a *Account) find(id ID) *Count {
	for i := range a.n {
		if a.counts[i].Rule.ID == id {
			return &a.counts[i]
		}
	}
	return nil
}

// Debt returns the largest use, and the time at which all has come back.
func (a *Account) Debt(now int64) Debt {
	d := Debt{Until: now}
	for i := range a.n {
		c := &a.counts[i]
		raw := c.Rule.alg.look(c.State, now, 0)
		d.Until = max(d.Until, c.Rule.alg.full(raw, now))
		d.Permits = max(d.Permits, c.Rule.Capacity-c.Rule.alg.available(raw, now))
	}
	return d
}

// Over reports whether the account can be dropped and nothing is lost.
func (a *Account) Over(now int64) bool { return a.End(now) <= now }

// End returns the time from which the account can be dropped.
func (a *Account) End(now int64) int64 {
	end := now
	for i := range a.n {
		c := &a.counts[i]
		end = max(end, c.Rule.alg.over(c.State, now))
	}
	return end
}

// Moved reports whether refunds have moved takes of the account: it must know that to give back no permits
// twice.
func (a *Account) Moved(now int64) bool {
	return slices.ContainsFunc(a.Counts(), func(c Count) bool { return c.Moved > 0 && !c.over(now) })
}

func (c *Count) over(now int64) bool { return c.Rule.alg.over(c.State, now) <= now }

// Touch writes words anew as of now, so that they can be read for another Horizon.
func (a *Account) Touch(now int64) {
	for i := range a.n {
		a.counts[i].State = a.counts[i].Rule.alg.touch(a.counts[i].State, now)
	}
}

// Expire replaces words that were written so long ago that they mean nothing: what they counted has
// recovered. The count stays, since a limit without one would start with the usage of another limit;
// only that of a limit that was replaced goes.
func (a *Account) Expire(age, now int64) {
	tooOld := func(c Count) bool { return !c.Rule.Listed() && age/5 > c.Rule.Horizon }
	a.Drop(func(c Count) bool { return c.Replaced && tooOld(c) })
	for i := range a.n {
		if c := &a.counts[i]; tooOld(*c) {
			c.State = c.Rule.alg.fresh(now)
		}
	}
}

// Change carries the account over as of a time since which the key was not used: that of the change, or
// later. A key without a count of a limit that was replaced stays as it is. The plans are those of the table,
// by their numbers.
func (a *Account) Change(c *Change, plans []*Plan, at int64) {
	held := false
	for _, id := range c.Replaced {
		for _, r := range plans[id].Rules {
			if old := a.find(r.ID); old != nil {
				old.Replaced, held = true, true
			}
		}
	}
	if held && !a.Over(at) {
		a.carry(plans[c.Plan], at)
	}
}

// carry puts a plan into force. It adds the counts that the plan lacks, each with the use of the
// key so far as one take, and drops those of replaced limits that have recovered.
func (a *Account) carry(p *Plan, at int64) {
	over := a.Over(at)
	a.Drop(func(c Count) bool {
		own := slices.Contains(p.Rules, c.Rule)
		return over && !own || own && c.Replaced && c.over(at)
	})
	missing := 0
	for _, r := range p.Rules {
		if c := a.find(r.ID); c != nil {
			c.Replaced = false
		} else {
			missing++
		}
	}
	for a.n+missing > maxCounts {
		a.merge(p, at)
	}
	old := a.n
	for _, r := range p.Rules {
		if a.find(r.ID) == nil {
			a.Add(a.start(r, p, old, at))
			a.added = true
		}
	}
	a.Drop(func(c Count) bool { return c.Replaced && c.over(at) })
}

// start is the count of a limit that has none, as of a time.
func (a *Account) start(r *Rule, p *Plan, old int, at int64) Count {
	c := Count{Rule: r, State: r.alg.fresh(at)}
	if a.Owed.Until > at {
		c.State = r.alg.owing(a.Owed.end(r, at), min(a.Owed.Permits, r.Capacity), at)
	}
	if n := a.use(r, p, old, at) - r.used(c.State, at); n > 0 {
		c.charge(at, n)
	}
	return c
}

// use returns the permits with which a limit without a count starts: the largest use or, of several limits, that
// of the limit which it replaces.
func (a *Account) use(r *Rule, p *Plan, old int, at int64) int64 {
	paired, unpaired, largest, joined := int64(-1), int64(0), int64(0), false
	for i := range old {
		c := &a.counts[i]
		joined = joined || c.Joined
		used := c.Rule.used(c.State, at)
		largest = max(largest, used)
		switch {
		case Pairs(c.Rule.Spec, r.Spec):
			paired = max(paired, used)
		case !slices.ContainsFunc(p.Rules, func(r *Rule) bool { return Pairs(c.Rule.Spec, r.Spec) }):
			unpaired = max(unpaired, used)
		}
	}
	switch {
	case len(p.Rules) == 1 && !joined:
		return largest
	case paired >= 0:
		return paired
	}
	return unpaired
}

// charge takes cost permits, or as many as the capacity allows.
func (c *Count) charge(now, cost int64) (receipt uint64, taken int64) {
	alg := c.Rule.alg
	if log, ok := alg.(segments); ok {
		taken = min(cost, c.Rule.Capacity)
		c.State = log.forget(c.State, now, taken)
	} else {
		taken = min(cost, alg.available(alg.look(c.State, now, 0), now))
	}
	if taken > 0 {
		c.State, receipt = alg.charge(c.State, now, now, now, taken)
	}
	return receipt, taken
}

// merge drops the count with the least use that is not in force, and charges it to the one
// with the largest.
func (a *Account) merge(p *Plan, now int64) {
	least, most, smallest, largest := -1, -1, int64(math.MaxInt64), int64(-1)
	for i := range a.n {
		c := &a.counts[i]
		used := c.Rule.used(c.State, now)
		if used < smallest && !slices.Contains(p.Rules, c.Rule) {
			least, smallest = i, used
		}
		if used > largest {
			most, largest = i, used
		}
	}
	if least != most {
		c := &a.counts[most]
		c.List = slices.Clone(c.List) // that of a look must stay as it is
		c.charge(now, smallest)
	}
	a.n = len(slices.Delete(a.counts[:a.n], least, least+1))
}

// Owe makes a key owe the limits of a plan a debt that it has in another store. A key that owes more
// already stays as it is. It reports whether the account has changed.
func (a *Account) Owe(p *Plan, d Debt, now int64) (changed bool) {
	a.carry(p, now)
	for _, r := range p.Rules {
		end := d.Until
		if end > now && r.Spec.Aligned {
			end = now + r.alg.recovery(now)
		}
		if end <= now {
			continue
		}
		c, owed := a.find(r.ID), r.alg.owing(end, d.Permits, now)
		more := r.used(owed, now) > r.used(c.State, now)
		if r.Spec.Algorithm == TokenBucket {
			more = end > r.alg.full(r.alg.look(c.State, now, 0), now)
		}
		if more {
			owed.Moved = c.Moved
			c.State, changed = owed, true
		}
	}
	return changed || a.added && !a.Over(now)
}
