package redisstore

import (
	"strconv"
	"sync/atomic"
	"time"

	"github.com/gresil/gresil/internal/limits"
)

// A request is one operation on its way to the server, and its result.
type request struct {
	key string

	// One of them decides: lua/many.lua under the numbers of a limit, or a script for one key.
	hot    *part
	script *script
	args   []any // of script, after the time
	all    bool  // script reads every value
	decode func(req *request, reply []int64) (r limits.Result, ok bool)

	// These are of a decision.
	table        *table
	plan         *plan
	op           limits.Op
	charge, room int64 // of hot: the units to charge, and the most that may be in use afterwards

	next  *request // of the same key
	state atomic.Int32
	wait  *waiter // nil if the caller sends it
	solo  solo
	r     limits.Result
	ok    bool
	err   error
}

// States of a request.
const (
	waiting = iota
	sent
	ended
	abandoned
)

// end gives a request its result, and reports whether its caller still waits.
func (req *request) end(r limits.Result, ok bool, err error) bool {
	req.r, req.ok, req.err = r, ok, err
	if !req.state.CompareAndSwap(sent, ended) && !req.state.CompareAndSwap(waiting, ended) {
		return false
	}
	if req.wait != nil {
		req.wait.done <- struct{}{}
	}
	return true
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

// request prepares an operation for sending. Takes, and reservations of a bucket, have scripts of their own.
func (t *table) request(key string, p *plan, op limits.Op) *request {
	req := &request{key: t.keyName(key), table: t, plan: p, op: op}
	if !req.forHot() {
		req.forAccount(0)
	}
	return req
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
	req.hot, req.script, req.args, req.all, req.decode = nil, accountScript(set), args, set == algAll, (*request).account
}

// account reads a reply of lua/account.lua.
func (req *request) account(n []int64) (r limits.Result, ok bool) {
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
