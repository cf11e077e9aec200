package limits

import (
	"math"
	"math/bits"
	"slices"
)

// A Value is what a key has used of one limit.
type Value struct {
	Rule *Rule // the limit that it was counted under
	State
}

// An Account is all that is kept of a key: a value for each of the joined limits that the last permits were taken under.
// A take under other limits restates them, as rule says in docs/adr/0006-a-key-has-one-value.md.
type Account struct {
	Owed Debt // the debt of an account that was evicted

	values [MaxLimits]Value
	n      int // values in use
}

// Values returns the values. They are valid until the account is changed.
func (a *Account) Values() []Value { return a.values[:a.n] }

// Load replaces all that is kept by values.
func (a *Account) Load(values []Value) { a.n = copy(a.values[:], values) }

// Add adds a value of a limit that has none.
func (a *Account) Add(v Value) {
	a.values[a.n] = v
	a.n++
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

// Debt returns the largest use, and the time at which all has come back.
func (a *Account) Debt(now int64) Debt {
	d := Debt{Until: now}
	for _, v := range a.Values() {
		raw := v.Rule.alg.look(v.State, now, 0)
		d.Until, d.Permits = max(d.Until, raw[full]), max(d.Permits, v.Rule.Capacity-raw[available])
	}
	return d
}

// End returns the time from which the account can be dropped and nothing is lost; now if it can be.
func (a *Account) End(now int64) int64 {
	end := now
	for _, v := range a.Values() {
		end = max(end, v.Rule.alg.over(v.State, now))
	}
	return end
}

// Moved reports whether refunds have moved takes of the account that have not recovered: it must know that to give back no
// permits twice.
func (a *Account) Moved(now int64) bool {
	return slices.ContainsFunc(a.Values(), func(v Value) bool {
		return v.Moved > 0 && v.Rule.Spec.Algorithm == TokenBucket && v.Rule.alg.over(v.State, now) > now
	})
}

// Touch writes words anew as of now, so that they can be read for another Horizon.
func (a *Account) Touch(now int64) {
	for i := range a.n {
		a.values[i].State = a.values[i].Rule.alg.touch(a.values[i].State, now)
	}
}

// Expire drops the words that were written so long ago that they mean nothing: what they counted has recovered.
func (a *Account) Expire(age int64) {
	n := a.n
	a.n = 0
	for _, v := range a.values[:n] {
		if age/5 <= v.Rule.Horizon || v.Moved > 0 && v.Rule.Spec.Algorithm == FixedWindow {
			a.Add(v)
		}
	}
}

// origin is the place of the value of the algorithm and period of a limit, or -1.
func (a *Account) origin(r *Rule) (from int) {
	from = -1
	for i, v := range a.Values() {
		if v.Rule == r {
			return i
		} else if v.Rule.kind() == r.kind() {
			from = i
		}
	}
	return from
}

// foreign is how the key stands under a limit that goes on from no value in that way: as the strictest of the values says from which no
// other limit of the plan goes on so, as all have counted the same takes. That is the one that makes the cost wait longest or, if
// none does, the one with the most permits used. It is at the place from, which is -1 if there is none: then all usage counts under
// other limits.
func (k *Key) foreign(p *Plan, r *Rule, cost int64) (raw Raw, from int) {
	from, most := -1, int64(0)
	raw[available] = math.MaxInt64
	for i, v := range k.Values() {
		if of := v.Rule.kind(); slices.ContainsFunc(p.Rules, func(other *Rule) bool { return other.kind() == of }) {
			continue
		}
		num, den := v.Rule.alg.used(v.State, v.due(k.Now))
		is, used := v.under(r, k.Now, cost), ceilDiv(num, den)
		if from < 0 || is[earliest] > raw[earliest] || is[earliest] == raw[earliest] && used > most {
			from, most = i, used
		}
		if is[available] < raw[available] || is[available] == raw[available] && is[more] > raw[more] {
			raw[available], raw[more] = is[available], is[more]
		}
		raw[earliest], raw[full] = max(raw[earliest], is[earliest]), max(raw[full], is[full]) // times are not before 0
	}
	return raw, from
}

// under returns the value that a limit goes on from, and how the key stands under the limit. If the take is refused and
// restated is true, the value at the place from is replaced by it.
func (k *Key) under(p *Plan, r *Rule, cost int64) (v Value, raw Raw, from int, restated bool) {
	from = k.origin(r)
	alone := from >= 0 || k.n == 1 && len(p.Rules) == 1 // a refused take can restate the value
	if from < 0 {
		raw, from = k.foreign(p, r, cost)
	} else if k.values[from].Rule != r {
		raw = k.values[from].under(r, k.Now, cost)
	}
	if v = k.values[max(0, from)]; from < 0 {
		v = Value{r, k.start(r)}
	}
	if v.Rule == r {
		return v, r.alg.look(v.State, k.Now, cost), from, false
	}
	if alone && cost > 0 && raw[earliest] > k.Now {
		if s, ok := v.restate(r, k.Now, v.due(k.Now)); ok {
			if now := r.alg.look(s, k.Now, cost); now[earliest] < raw[earliest] && now[full] < raw[full] {
				return Value{r, s}, now, from, true
			}
		}
	}
	return v, raw, from, false
}

// start is the state of a limit that goes on from no value.
func (k *Key) start(r *Rule) State {
	if k.Owed.Until > k.Now {
		return r.owing(k.Owed.end(r, k.Now), k.Owed.Permits, k.Now)
	}
	return r.alg.fresh(k.Now)
}

// owing is a state that has taken so many permits, all of which are back at a time.
func (r *Rule) owing(until, permits, now int64) State {
	n, at := min(permits, r.Capacity), until-r.alg.recovery(now)
	switch left := until - now; {
	case r.Spec.Algorithm == TokenBucket:
		n, at = 0, max(now, until) // it is full then, and so has taken what it gains until then
	case r.Spec.Algorithm == FixedWindow && n < r.Capacity:
		at = min(at, now) // only reservations lie ahead, behind a window that is full
	case r.Spec.Algorithm == SlidingCounter && left > 0 && left < r.alg.recovery(now)/2: // n is their weight, and more were taken
		n, _ = MulDiv(n, r.alg.recovery(now)/2, left, r.Capacity)
	}
	s, _ := r.alg.put(now, at, n, 1)
	return s
}

// due is when the last permits that were reserved can be used, or now. Nothing is taken before.
func (v *Value) due(now int64) int64 { return v.Rule.alg.due(v.State, now) }

// under is how the key stands under another limit: it has as many permits in use as under its own.
func (v *Value) under(r *Rule, now, cost int64) Raw {
	left := int64(0)
	if v.due(now) == now {
		num, den := v.Rule.alg.used(v.State, now)
		left = max(0, r.Capacity-ceilDiv(num, den))
	}
	return rawOf(r.Capacity, left, now, cost, func(cost int64) int64 { // at which the limit of the value leaves cost permits of the other
		if cost += v.Rule.Capacity - r.Capacity; cost <= 0 && !v.Rule.Listed() { // a list can have more in use than its limit
			return v.due(now)
		}
		return v.Rule.alg.look(v.State, now, cost)[earliest]
	})
}

// restate is the state under another limit, as of now, of what is used at a time that is not before due. Used permits stay
// used. If algorithm and period are the same, their times stay too: only the number that they are compared to differs.
// It is false if that state cannot be kept.
func (v *Value) restate(r *Rule, now, at int64) (s State, ok bool) {
	switch same := v.Rule.kind() == r.kind(); {
	case same && r.Listed():
		return State{List: slices.Clone(v.List)}, true
	case same && r.Spec.Algorithm == FixedWindow:
		return r.window.same(v.State, &v.Rule.window, now), true
	}
	num, den := v.Rule.alg.used(v.State, at)
	s, ok = r.alg.put(now, at, num, den)
	if at == v.due(now) {
		s = r.hold(s, now, at)
	}
	return s, ok
}

// exact reports whether the state under another limit has all that is used now, also what will have recovered when the next permit can be
// taken.
func (v *Value) exact(r *Rule, now int64) bool {
	used, _ := v.Rule.alg.used(v.State, v.due(now))
	return v.Rule.kind() == r.kind() && (r.Listed() || r.Spec.Algorithm == FixedWindow && used <= r.Capacity)
}

// kind is the algorithm and the period.
func (r *Rule) kind() Spec {
	k := Spec{Algorithm: r.Spec.Algorithm, Aligned: r.Spec.Aligned, Period: r.Spec.Period}
	if k.Algorithm == SlidingLog {
		k.Algorithm = SlidingWindow // a log with shorter steps
	}
	return k
}

// Owe makes a key owe the limits of a plan a debt that it has in another store. A key that owes more
// already stays as it is.
func (k *Key) Owe(p *Plan, d Debt) {
	for _, r := range p.Rules {
		end, bucket := d.Until, r.Spec.Algorithm == TokenBucket
		if end > k.Now && r.Spec.Aligned {
			end = k.Now + r.alg.recovery(k.Now)
		}
		v, raw, from, _ := k.under(p, r, 0)
		owed := r.owing(end, d.Permits, k.Now)
		more := r.alg.look(owed, k.Now, 0)
		if end <= k.Now || bucket && more[full] <= raw[full] || !bucket && more[available] >= raw[available] {
			continue
		}
		if bucket && v.Rule == r {
			owed.Moved = v.Moved
		}
		if k.Changed = true; from >= 0 && (v.Rule.kind() == r.kind() || k.n == MaxLimits) {
			k.values[from] = Value{r, owed}
		} else {
			k.Add(Value{r, owed})
		}
	}
}

func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }

// MulDiv returns a*b/c, rounded up, or most and false if that is more.
func MulDiv(a, b, c, most int64) (q int64, ok bool) {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi >= uint64(c) {
		return most, false
	}
	n, rest := bits.Div64(hi, lo, uint64(c))
	n += min(1, rest)
	return int64(min(n, uint64(most))), n <= uint64(most)
}
