package redisstore

import (
	"time"

	"github.com/gresil/gresil/internal/limits"
)

// Codes in the reply of a script for many keys, in place of the number of permits taken.
const (
	refused = -1
	foreign = -2 // only account can read the value
)

// amount returns how many permits an operation asks for, whether it can take a part of them, and whether it only reads
// the state of the key.
func (p *part) amount(op *limits.Op) (cost int64, partly, looks bool) {
	partly, looks = op.Kind == limits.TakeAtMost || op.Kind == limits.Drain, op.Kind == limits.Check
	switch {
	case op.Kind == limits.Drain, partly && op.Cost > p.Capacity:
		return p.Capacity, partly, looks
	case op.Cost > p.Capacity:
		return 0, false, true
	}
	return op.Cost, partly, looks
}

// forBuckets makes req a request for lua/buckets.lua.
func (req *request) forBuckets() {
	p, op := req.plan.parts[0], &req.op
	cost, partly, looks := p.amount(op)
	full := p.Capacity * p.b
	room, mode := full, "0"
	switch {
	case looks:
		mode = "-1"
	case partly:
		mode = number(p.b)
	case op.Kind == limits.Reserve:
		room = maxDebt
		if wait := int64(op.MaxWait / time.Microsecond); wait < (maxDebt-full)/p.a {
			room = full + wait*p.a
		}
	}
	req.script, req.width, req.decode = bucketScript(), 3, (*request).bucket
	if req.args = p.one; op.Kind != limits.Take || cost != 1 {
		req.args = []any{number(cost * p.b), number(room), p.mul, mode, p.name}
	}
}

// bucket reads a reply of lua/buckets.lua.
func (req *request) bucket(now int64, n []int64) (r limits.Result, ok bool) {
	if n[0] == foreign {
		return r, false
	}
	p, debt, moved, granted, at := req.plan.parts[0], n[1], n[2], n[0], now*1000
	if _, _, looks := p.amount(&req.op); granted > 0 && !looks {
		granted /= p.b
		at = p.OfDebt(debt-n[0], at, granted).Earliest()
	}
	return req.alone(now, granted, at, uint64(debt+moved), p.OfDebt(debt, now*1000, req.plan.Asked(&req.op))), true
}

// forWindows makes req a request for lua/windows.lua.
func (req *request) forWindows() {
	p, op := req.plan.parts[0], &req.op
	cost, partly, looks := p.amount(op)
	mode := ""
	switch {
	case looks:
		mode = "?"
	case partly:
		mode = "<"
	}
	req.script, req.width, req.decode = windowScript(), 3, (*request).window
	if req.args = p.one; op.Kind != limits.Take || cost != 1 {
		req.args = []any{p.name, p.permits, p.window(), mode + number(cost)}
	}
}

// window reads a reply of lua/windows.lua.
func (req *request) window(now int64, n []int64) (r limits.Result, ok bool) {
	if n[0] == foreign {
		return r, false
	}
	p, start, used := req.plan.parts[0], n[1], n[2]
	asked := req.plan.Asked(&req.op)
	return req.alone(now, n[0], now*1000, uint64(start+(used-1)/p.Capacity*p.a), p.OfWindow(start*1000, used, now*1000, asked)), true
}

// alone returns the result of a script for many keys, for one key under one limit.
func (req *request) alone(now, granted, at int64, receipt uint64, raw limits.Raw) limits.Result {
	op := &req.op
	switch {
	case op.Kind == limits.TakeAtMost && granted == 0 && op.Cost > 0:
		granted = refused
	case op.Kind == limits.Check:
		granted = min(granted, 0)
	}
	var r limits.Result
	req.plan.Result(now*1000, op, granted, at, []limits.Raw{raw}, &r)
	if r.Receipt.At = now; r.Permits > 0 {
		r.Receipt.Parts[0] = receipt
	}
	return r
}
