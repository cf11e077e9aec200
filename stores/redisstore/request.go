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

	// One of them decides: lua/many.lua under the numbers of a limit, or another script.
	hot    *part
	script *script
	args   []any // of script, for this key
	all    bool  // script reads every value

	decode func(reply []int64) bool // of an operation that is no decision

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
	args := make([]any, 0, 4)
	args = append(args, number(int64(op.Kind)), number(min(op.Cost, limits.MaxPermits+1)), number(int64(op.MaxWait/time.Microsecond)), "0")
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
	args[3] = number(int64(len(args) - 4))
	set |= p.algorithms
	req.hot, req.script, req.args, req.all = nil, accountScript(set), args, set == algAll
}

// account reads the part of a reply of lua/account.lua for the request at a place of its flight.
func (req *request) account(reply string, place int) (r limits.Result, ok bool, err error) {
	const each = 5
	p, op := req.plan, req.op
	from, width := 1+place*(2+each*len(p.parts)), 2+each*len(p.parts)
	if len(reply) < 8*(from+width) {
		return r, false, nil
	}
	granted, at := double(reply, from), double(reply, from+1)*1000
	switch granted {
	case -2:
		return r, false, nil
	case -3:
		return r, false, foreignError(req.key)
	}
	now, raws, stands := double(reply, 0)*1000, make([]limits.Raw, len(p.parts)), make([]limits.Result, len(p.parts))
	for i, part := range p.parts {
		of := from + 2 + each*i
		raws[i] = limits.Raw{double(reply, of), double(reply, of+1) * 1000, double(reply, of+2) * 1000, double(reply, of+3) * 1000}
		r.Receipt.Parts[i] = uint64(double(reply, of+4))
		part.Report(raws[i], now, &stands[i])
	}
	if op.Kind == limits.Refund || op.Kind == limits.Reset {
		op.Cost = 0
	}
	p.Result(now, &op, granted, at, raws, &r)
	r.Receipt.At = now / 1000
	if len(stands) > 1 {
		r.Receipt.More = &limits.More{Stands: stands}
	}
	return r, true, nil
}

// A foreignError is the error of an operation on a key whose value is none of a limit, by its name in the server.
type foreignError string

// Error returns a text as of the server.
func (e foreignError) Error() string {
	return "WRONGTYPE " + string(e) + " holds a value that is none of a limit"
}

// RedisError marks it as an error of the server.
func (foreignError) RedisError() {}
