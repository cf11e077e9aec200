package redisstore

import (
	"time"

	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/core/ratelimit/driver"
	"github.com/gresil/gresil/internal/limits"
)

// Codes in the reply of a script for many keys, instead of the permits taken.
const (
	refused = -1
	foreign = -2 // the value is one that account has to read
)

// bucketRequest is for lua/buckets.lua.
func (p *part) bucketRequest(req *request, of *plan, op driver.Op) {
	full, cost := p.Capacity*p.b, op.Cost
	room, mode := full, "0"
	switch op.Kind {
	case driver.TakeAtMost:
		cost, mode = min(cost, p.Capacity), number(p.b)
	case driver.Drain:
		cost, mode = p.Capacity, number(p.b)
	case driver.Check:
		mode = "-1"
	case driver.Reserve:
		room = maxDebt
		if wait := int64(op.MaxWait / time.Microsecond); wait < (maxDebt-full)/p.a {
			room = full + wait*p.a
		}
	case driver.Take, driver.Refund, driver.Reset:
	}
	if cost > p.Capacity {
		cost, mode = 0, "-1" // only the state of the key
	}
	req.script, req.width = bucketScript(), 2
	if req.args = p.one; op.Kind != driver.Take || cost != 1 {
		req.args = []any{number(cost * p.b), number(room), p.mul, mode, p.name}
	}
	req.decode = func(now int64, n []int64) (r ratelimit.Result, ok bool) {
		if n[0] == foreign {
			return r, false
		}
		debt, granted, at := n[1], n[0], now*1000
		if granted > 0 && mode != "-1" {
			granted /= p.b
			at = p.Earliest(limits.Raw{debt - n[0]}, at, granted)
		}
		return p.result(of, &op, now, granted, at, uint64(debt), limits.Raw{debt}), true
	}
}

// windowRequest is for lua/windows.lua.
func (p *part) windowRequest(req *request, of *plan, op driver.Op) {
	cost, mode := op.Cost, ""
	switch op.Kind {
	case driver.TakeAtMost, driver.Drain:
		if mode = "<"; op.Kind == driver.Drain {
			cost = p.Capacity
		}
		cost = min(cost, p.Capacity)
	case driver.Check:
		mode = "?"
	case driver.Take, driver.Reserve, driver.Refund, driver.Reset:
	}
	if cost > p.Capacity {
		cost, mode = 0, "?"
	}
	req.script, req.width = windowScript(), 3
	if req.args = p.one; op.Kind != driver.Take || cost != 1 {
		req.args = []any{p.name, p.permits, p.window(), mode + number(cost)}
	}
	req.decode = func(now int64, n []int64) (r ratelimit.Result, ok bool) {
		if n[0] == foreign {
			return r, false
		}
		start, used := n[1], n[2]
		return p.result(of, &op, now, n[0], now*1000, uint64(start+(used-1)/p.Capacity*p.a), limits.Raw{start * 1000, used}), true
	}
}

// result is that of a reply of a script for many keys.
func (p *part) result(of *plan, op *driver.Op, now, granted, at int64, receipt uint64, raw limits.Raw) ratelimit.Result {
	switch {
	case op.Kind == driver.TakeAtMost && granted == 0 && op.Cost > 0:
		granted = refused
	case op.Kind == driver.Check:
		granted = min(granted, 0)
	}
	r := of.Result(now*1000, op, granted, at, []limits.Raw{raw})
	if r.Receipt.At = now; r.Granted > 0 {
		r.Receipt.Plans[0], r.Receipt.Parts[0] = p.ID, receipt
	}
	return r
}
