package redisstore

import (
	"encoding/binary"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gresil/gresil/internal/limits"
)

// A request is one operation on its way to the server, and its result.
type request struct {
	key string

	// One of them decides: lua/many.lua under the numbers of a limit, or a script.
	hot    *part
	script *script
	args   []any                    // of the script for this key
	all    bool                     // script reads every value
	decode func(reply []int64) bool // of a request that is no decision

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

var requests = sync.Pool{New: func() any { return new(request) }} //nolint:gochecknoglobals // they belong to no store

// free puts a request that has ended into the pool. One that has not may still be in a lane.
func (req *request) free() {
	if req.state.Load() == ended {
		*req = request{}
		requests.Put(req)
	}
}

// request prepares an operation for sending. Most takes, and reservations of a bucket, have scripts of their own.
func (t *table) request(key string, p *plan, op limits.Op) *request {
	req := requests.Get().(*request) //nolint:forcetypeassert // see New
	req.key, req.table, req.plan, req.op = t.keyName(key), t, p, op
	if t.store.odd.has(t.store.hash(req.key)) {
		req.forAccount(algAll)
	} else if !req.forHot() && !req.forTake() {
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

// An oddKeys notes keys whose values only account with all algorithms could read lately. Requests for them use it at once, which saves a
// round trip. It is safe for concurrent use.
type oddKeys [1024]atomic.Uint64 // of a hash the bits above 16, below them the time in seconds

func (o *oddKeys) note(hash uint64) {
	o[hash>>16%uint64(len(o))].Store(hash&^0xffff | uint64(uint16(time.Now().Unix()))) //nolint:gosec // seconds may wrap
}

func (o *oddKeys) has(hash uint64) bool {
	is := o[hash>>16%uint64(len(o))].Load()
	return is&^0xffff == hash&^0xffff && uint16(time.Now().Unix())-uint16(is) <= 1 //nolint:gosec // seconds may wrap
}

// takeOne is how lua/account.lua and lua/take.lua are asked for a permit.
var takeOne = []any{packed(nil, 0, 1, 0)} //nolint:gochecknoglobals // a constant

// packed appends numbers as doubles.
func packed(to []byte, numbers ...int64) []byte {
	for _, n := range numbers {
		to = binary.LittleEndian.AppendUint64(to, math.Float64bits(float64(n)))
	}
	return to
}

// forAccount makes req a request for lua/account.lua, with the algorithms of set and those of its limits.
func (req *request) forAccount(set uint) {
	for _, part := range req.plan.parts {
		set |= part.algorithm
	}
	req.ask(accountScript(set))
	req.all = set == algAll
}

// ask makes req a request for lua/account.lua or lua/take.lua.
func (req *request) ask(script *script) {
	req.hot, req.script, req.args = nil, script, takeOne
	if req.usual() {
		return
	}
	op := &req.op
	arg := packed(nil, int64(op.Kind), min(op.Cost, limits.MaxPermits+1), int64(op.MaxWait/time.Microsecond))
	if take := &op.Receipt; op.Kind == limits.Refund {
		arg = packed(arg, take.At)
		if take.Plan != nil {
			if of, ours := take.Plan.Store.(*plan); ours { // a take of another store gives nothing back
				for i, part := range of.parts {
					arg = append(append(packed(arg, int64(take.Parts[i])), part.name...), 0)
				}
			}
		}
	}
	req.args = []any{arg}
}

// Permits in a reply of lua/account.lua or lua/take.lua.
const (
	lacking = -2 // account with all algorithms can decide
	unread  = -3 // the value is none of a limit
)

// account reads the reply of lua/account.lua or lua/take.lua for the request at a place of its flight.
func (req *request) account(reply string, place int) (r limits.Result, ok bool, err error) {
	const head, each = 2, 5
	p, op := req.plan, req.op
	from := 1 + (head+each*len(p.parts))*place
	if len(reply) < 8*(from+head+each*len(p.parts)) {
		return r, false, nil
	}
	us := func(i int) int64 { return double(reply, i) * 1000 }
	granted := double(reply, from)
	switch granted {
	case lacking:
		return r, false, nil
	case unread:
		return r, false, explain(foreignError(req.key), true)
	}
	now, raws, stands := us(0), make([]limits.Raw, len(p.parts)), make([]limits.Result, len(p.parts))
	for i, part := range p.parts {
		of := from + head + each*i
		raws[i] = limits.Raw{double(reply, of), us(of + 1), us(of + 2), us(of + 3)}
		r.Receipt.Parts[i] = uint64(double(reply, of+4))
		part.Report(raws[i], now, &stands[i])
	}
	if op.Kind == limits.Refund || op.Kind == limits.Reset {
		op.Cost = 0
	}
	p.Result(now, &op, granted, us(from+1), raws, &r)
	r.Receipt.At = double(reply, 0)
	if len(stands) > 1 {
		r.Receipt.More = &limits.More{Stands: stands}
	}
	return r, true, nil
}
