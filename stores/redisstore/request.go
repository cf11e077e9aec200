package redisstore

import (
	"fmt"
	"strconv"
	"time"

	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
)

// A request is one operation on its way to the server.
type request struct {
	script *script
	key    string
	args   []any // the arguments after the time
	width  int   // numbers for each key in the reply after the time, of a script that takes many keys; otherwise 0
	all    bool  // the script reads every value

	// Of a decision; decode reads the reply.
	table  *table
	plan   *plan
	op     limits.Op
	decode func(req *request, now int64, reply []int64) (r ratelimit.Result, ok bool)
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

// request prepares an operation for sending. The most common ones, of one bucket or one fixed
// window, have a script of their own.
func (t *table) request(key string, p *plan, op limits.Op) *request {
	req := &request{key: t.keyName(key), table: t, plan: p, op: op}
	if op.Change != nil && t.store.since(op.Change.At) > time.Duration(t.life.Load()) {
		req.op.Change = nil // no earlier usage is left
	}
	switch first := p.parts[0]; {
	case first.algorithm == algBucket && first.c == 1 && p.simple(&req.op):
		req.forBuckets()
	case first.algorithm == algWindow && p.simple(&req.op):
		req.forWindows()
	default:
		req.forAccount(0)
	}
	return req
}

// simple reports whether a script for many keys might decide an operation.
func (p *plan) simple(op *limits.Op) bool {
	if len(p.parts) > 1 || op.Change != nil || op.Kind == limits.Refund || op.Kind == limits.Reset {
		return false
	}
	return op.Kind != limits.Reserve || p.parts[0].algorithm == algBucket
}

// undo makes the request that refunds the permits of a take; nil for other operations.
func (req *request) undo(take ratelimit.Result) *request {
	if take.Permits == 0 || req.op.Kind > limits.Reserve {
		return nil
	}
	back := &request{key: req.key, table: req.table, plan: req.plan}
	back.op = limits.Op{Kind: limits.Refund, Cost: take.Permits, Receipt: take.Receipt}
	back.forAccount(algAll)
	return back
}

// general makes a request one for account with all algorithms, which reads every value; false if it is
// already.
func (req *request) general() bool {
	if req.all {
		return false
	}
	req.forAccount(algAll)
	return true
}

// forAccount makes it a request for lua/account.lua, with the algorithms of set and those that it names.
func (req *request) forAccount(set uint) {
	t, p, op := req.table, req.plan, &req.op
	plans := *t.plans.Load()
	names := func(args []any, parts []*part) []any {
		args = append(args, number(int64(len(parts))))
		for _, part := range parts {
			set |= part.algorithm
			args = append(args, part.name)
		}
		return args
	}
	args := make([]any, 0, 16)
	args = append(args, number(int64(op.Kind)), number(min(op.Cost, limits.MaxPermits+1)), number(int64(op.MaxWait/time.Microsecond)), number(p.Capacity))
	args = names(args, p.parts)
	if c := op.Change; c == nil {
		args = append(args, "-1")
	} else {
		args = names(args, plans[c.Plan].parts)
		var replaced []*part
		for _, id := range c.Replaced {
			replaced = append(replaced, plans[id].parts...)
		}
		args = append(names(args, replaced), number(t.store.since(c.At).Microseconds()))
	}
	if op.Kind == limits.Refund {
		args = append(args, t.charges(op)...)
	}
	req.script, req.args, req.width, req.all, req.decode = accountScript(set), args, 0, set == algAll, (*request).account
}

// charges returns the charges that a refund names.
func (t *table) charges(op *limits.Op) []any {
	plans, take := *t.plans.Load(), &op.Receipt
	args := []any{number(take.At), ""}
	charge := func(id limits.ID, receipt uint64, cost int64) {
		if id > 0 && int(id) < len(plans) && len(plans[id].parts) == 1 {
			args = append(args, plans[id].parts[0].name, strconv.FormatUint(receipt, 10), number(min(cost, op.Cost)))
		}
	}
	for i, id := range take.Plans {
		charge(id, take.Parts[i], op.Cost)
	}
	if more, ok := take.More.(*limits.More); ok {
		for _, k := range more.Kept {
			charge(k.Rule, k.Receipt, k.Cost)
		}
	}
	args[1] = number(int64(len(args) / 3))
	return args
}

// account reads a reply of lua/account.lua.
func (req *request) account(_ int64, n []int64) (r ratelimit.Result, ok bool) {
	const head, each, kept = 3, 5, 8
	p, op := req.plan, req.op
	if len(n) < head+each*len(p.parts) {
		return r, false
	}
	now, granted, at := n[0]*1000, n[1], n[2]*1000
	raws, receipt := make([]limits.Raw, len(p.parts)), limits.Receipt{At: n[0]}
	for i, part := range p.parts {
		raws[i] = part.raw(n[head+each*i:])
		if granted > 0 {
			receipt.Plans[i], receipt.Parts[i] = part.ID, uint64(n[head+each*i+4])
		}
		if len(p.parts) > 1 {
			var alone ratelimit.Result
			part.Report(raws[i], now, &alone)
			more := limits.MoreOf(&receipt)
			more.Stands = append(more.Stands, alone)
		}
	}
	for n = n[head+each*len(p.parts):]; len(n) >= kept; n = n[kept:] {
		name := fmt.Sprintf("%c:%d:%d:%d:%d:%d", rune(n[0]), n[1], n[2], n[3], n[4], n[5])
		if part := req.table.partNamed(name); part != nil {
			limits.Keep(&receipt, limits.Kept{Rule: part.ID, Receipt: uint64(n[6]), Cost: n[7]})
		}
	}
	if op.Kind == limits.Refund || op.Kind == limits.Reset {
		op.Cost = 0
	}
	r = p.Result(now, &op, granted, at, raws)
	r.Receipt = receipt
	return r, true
}
