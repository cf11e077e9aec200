package redisstore

import (
	"time"

	"github.com/gresil/gresil/core/ratelimit"
)

// What a script for many keys says in place of what was taken.
const (
	refused = -1
	foreign = -2 // the value is one that decide has to read
)

// bucketRequest is for lua/bucket.lua.
func (p *part) bucketRequest(req *request, of *plan, op ratelimit.Op) {
	kind, full, cost := op.Kind, p.permits*p.b, op.Cost // decode does not keep op
	room, mode := full, "0"
	switch kind {
	case ratelimit.TakeAtMost:
		cost, mode = min(cost, p.permits), number(p.b)
	case ratelimit.Drain:
		cost, mode = p.permits, number(p.b)
	case ratelimit.Check:
		mode = "-1"
	case ratelimit.Reserve:
		room = maxDebt
		if wait := int64(op.MaxWait / time.Microsecond); wait < (maxDebt-full)/p.a {
			room = full + wait*p.a
		}
	case ratelimit.Take, ratelimit.Refund, ratelimit.Reset:
	}
	never := cost > p.permits
	if never {
		cost, mode = 0, "-1" // only how the key stands
	}
	req.script, req.width = bucketScript(), 2
	if req.args = p.one; kind != ratelimit.Take || cost != 1 {
		req.args = []any{number(cost * p.b), number(room), p.spec[2], mode}
	}
	req.decode = func(now int64, n []int64) (r ratelimit.Result, ok bool) {
		if n[0] == foreign {
			return r, false
		}
		debt := n[1]
		after := func(units int64) time.Duration { return micros((max(0, units) + p.a - 1) / p.a) }
		r = ratelimit.Result{
			Allowed: n[0] != refused, Limit: p.permits, Plan: of.id,
			Remaining: max(0, full-debt) / p.b, FullAfter: after(debt),
		}
		if r.Remaining < p.permits {
			r.NextAfter = after(debt + (r.Remaining+1)*p.b - full)
		}
		switch {
		case never:
			r.Allowed, r.RetryAfter = false, ratelimit.Never
		case !r.Allowed:
			r.RetryAfter = after(debt + cost*p.b - full)
		case kind == ratelimit.TakeAtMost && n[0] == 0 && cost > 0:
			r.Allowed, r.RetryAfter = false, r.NextAfter
		case kind != ratelimit.Check && n[0] > 0:
			r.Granted, r.Wait = n[0]/p.b, after(debt-full)
			r.Receipt.At, r.Receipt.Plans[0], r.Receipt.Parts[0] = now, p.id, uint64(debt)
		}
		return r, true
	}
}

// windowRequest is for lua/window.lua.
func (p *part) windowRequest(req *request, of *plan, op ratelimit.Op) {
	kind, cost, mode := op.Kind, op.Cost, ""
	switch kind {
	case ratelimit.TakeAtMost, ratelimit.Drain:
		if mode = "<"; kind == ratelimit.Drain {
			cost = p.permits
		}
		cost = min(cost, p.permits)
	case ratelimit.Check:
		mode = "?"
	case ratelimit.Take, ratelimit.Reserve, ratelimit.Refund, ratelimit.Reset:
	}
	never := cost > p.permits
	if never {
		cost, mode = 0, "?"
	}
	req.script, req.width = windowScript(), 3
	if req.args = p.one; kind != ratelimit.Take || cost != 1 {
		req.args = []any{p.spec[0], p.spec[1], p.window(), mode + number(cost)}
	}
	req.decode = func(now int64, n []int64) (r ratelimit.Result, ok bool) {
		if n[0] == foreign {
			return r, false
		}
		start, used := n[1], n[2]
		earliest := func(cost int64) time.Duration { // see place in lua/decide/window.lua
			place := used
			if used%p.permits+cost > p.permits {
				place = (used + p.permits - 1) / p.permits * p.permits
			}
			if ahead := place / p.permits; ahead > 0 {
				return micros(max(0, start+ahead*p.a-now))
			}
			return 0
		}
		r = ratelimit.Result{Allowed: n[0] != refused, Limit: p.permits, Plan: of.id, Remaining: max(0, p.permits-used)}
		if used > 0 {
			r.FullAfter = micros(start + (used+p.permits-1)/p.permits*p.a - now)
		}
		if r.Remaining < p.permits {
			r.NextAfter = earliest(r.Remaining + 1)
		}
		switch {
		case never:
			r.Allowed, r.RetryAfter = false, ratelimit.Never
		case !r.Allowed:
			r.RetryAfter = earliest(cost)
		case kind == ratelimit.TakeAtMost && n[0] == 0 && cost > 0:
			r.Allowed, r.RetryAfter = false, r.NextAfter
		case kind != ratelimit.Check && n[0] > 0:
			r.Granted = n[0]
			r.Receipt.At, r.Receipt.Plans[0], r.Receipt.Parts[0] = now, p.id, uint64(start+(used-1)/p.permits*p.a)
		}
		return r, true
	}
}
