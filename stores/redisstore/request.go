package redisstore

import (
	"strconv"
	"time"

	"github.com/gresil/gresil/internal/limits"
)

// A request is one operation on its way to the server.
type request struct {
	script *script
	key    string
	args   []any // the arguments after the time
	width  int   // of a script for many keys: how many numbers the reply has for each key, after the time; otherwise 0
	all    bool  // the script reads every value

	decode func(req *request, now int64, reply []int64) (r limits.Result, ok bool) // reads the reply

	// These are of a decision.
	table *table
	plan  *plan
	op    limits.Op
}

// result reads the part of a reply for the request at a place of its flight.
func (req *request) result(reply []int64, place int) (r limits.Result, ok bool) {
	if req.width == 0 {
		return req.decode(req, 0, reply)
	}
	from := 1 + place*req.width
	if len(reply) < from+req.width {
		return r, false
	}
	return req.decode(req, reply[0], reply[from:from+req.width])
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

// request prepares an operation for sending. The most common operations, on one bucket or one fixed window, have their
// own scripts.
func (t *table) request(key string, p *plan, op limits.Op) *request {
	req := &request{key: t.keyName(key), table: t, plan: p, op: op}
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

// simple reports whether a script for many keys can decide an operation.
func (p *plan) simple(op *limits.Op) bool {
	if len(p.parts) > 1 || op.Kind == limits.Refund || op.Kind == limits.Reset {
		return false
	}
	return op.Kind != limits.Reserve || p.parts[0].algorithm == algBucket
}

// undo returns a request that refunds the permits of a take; nil for other operations.
func (req *request) undo(take limits.Result) *request {
	if take.Permits == 0 || req.op.Kind > limits.Reserve {
		return nil
	}
	back := &request{key: req.key, table: req.table, plan: req.plan}
	back.op = limits.Op{Kind: limits.Refund, Cost: take.Permits, Receipt: take.Receipt}
	back.forAccount(algAll)
	return back
}

// general makes req a request for account with all algorithms, which reads every value. It returns false if req is such
// a request already, or is not a decision.
func (req *request) general() bool {
	if req.all || req.plan == nil {
		return false
	}
	req.forAccount(algAll)
	return true
}

// forAccount makes req a request for lua/account.lua, with the algorithms of set and those of its limits.
func (req *request) forAccount(set uint) {
	p, op := req.plan, &req.op
	args := make([]any, 0, 16)
	args = append(args, number(int64(op.Kind)), number(min(op.Cost, limits.MaxPermits+1)), number(int64(op.MaxWait/time.Microsecond)),
		number(p.Capacity), number(int64(len(p.parts))))
	for _, part := range p.parts {
		set |= part.algorithm
		args = append(args, part.name)
	}
	if take := &op.Receipt; op.Kind == limits.Refund {
		args = append(args, number(take.At))
		if take.Plan != nil {
			if of, ours := take.Plan.Store.(*plan); ours { // a take of another store gives nothing back
				for i, part := range of.parts {
					args = append(args, part.name, number(int64(take.Parts[i])))
				}
			}
		}
	}
	req.script, req.args, req.width, req.all, req.decode = accountScript(set), args, 0, set == algAll, (*request).account
}

// account reads a reply of lua/account.lua.
func (req *request) account(_ int64, n []int64) (r limits.Result, ok bool) {
	const head, each = 3, 5
	p, op := req.plan, req.op
	if len(n) < head+each*len(p.parts) {
		return r, false
	}
	us := func(t int64) int64 { return t * 1000 }
	now, raws, stands := us(n[0]), make([]limits.Raw, len(p.parts)), make([]limits.Result, len(p.parts))
	for i, part := range p.parts {
		of := n[head+each*i:]
		raws[i] = limits.Raw{of[0], us(of[1]), us(of[2]), us(of[3])}
		r.Receipt.Parts[i] = uint64(of[4])
		part.Report(raws[i], now, &stands[i])
	}
	if op.Kind == limits.Refund || op.Kind == limits.Reset {
		op.Cost = 0
	}
	p.Result(now, &op, n[1], us(n[2]), raws, &r)
	r.Receipt.At = n[0]
	if len(stands) > 1 {
		r.Receipt.More = &limits.More{Stands: stands}
	}
	return r, true
}
