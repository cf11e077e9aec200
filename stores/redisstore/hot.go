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

// amount returns how many permits an operation asks for, whether it takes as many of them as there
// are, and whether it only reads the state of the key.
func (p *part) amount(op driver.Op) (cost int64, partly, looks bool) {
	partly, looks = op.Kind == driver.TakeAtMost || op.Kind == driver.Drain, op.Kind == driver.Check
	switch {
	case op.Kind == driver.Drain, partly && op.Cost > p.Capacity:
		return p.Capacity, partly, looks
	case op.Cost > p.Capacity:
		return 0, false, true
	}
	return op.Cost, partly, looks
}

// bucketRequest is for lua/buckets.lua.
func (p *part) bucketRequest(req *request, of *plan, op driver.Op) {
	cost, partly, looks := p.amount(op)
	full := p.Capacity * p.b
	room, mode := full, "0"
	switch {
	case looks:
		mode = "-1"
	case partly:
		mode = number(p.b)
	case op.Kind == driver.Reserve:
		room = maxDebt
		if wait := int64(op.MaxWait / time.Microsecond); wait < (maxDebt-full)/p.a {
			room = full + wait*p.a
		}
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
		if granted > 0 && !looks {
			granted /= p.b
			at = p.Earliest(limits.Raw{debt - n[0]}, at, granted)
		}
		return p.result(of, &op, now, granted, at, uint64(debt), limits.Raw{debt}), true
	}
}

// windowRequest is for lua/windows.lua.
func (p *part) windowRequest(req *request, of *plan, op driver.Op) {
	cost, partly, looks := p.amount(op)
	mode := ""
	switch {
	case looks:
		mode = "?"
	case partly:
		mode = "<"
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
