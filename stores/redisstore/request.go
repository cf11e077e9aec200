package redisstore

import (
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/gresil/gresil/core/ratelimit"
)

// A request is one decision on its way to the server.
type request struct {
	script *script
	key    string
	args   []any // those after the time
	width  int   // numbers for each key in the reply after the time, of a script that takes many keys; else 0
	decode func(now int64, reply []int64) (r ratelimit.Result, ok bool)
	origin *origin // in a lane; else nil
	stands []stand // set by decode: how each of several parts stands
	at     int64   // the time of the server at the decision, in µs
}

// An origin is the operation that a request was made from.
type origin struct {
	table *table
	plan  *plan
	op    ratelimit.Op
	kept  string // the key, for denials
}

// A stand is how a part of a limit stands.
type stand struct {
	left int64
	full time.Duration // after which it is
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

// request makes an operation ready. What is asked most, of one bucket or one fixed window,
// has a script of its own; foreign tells that it could not read the value.
func (t *table) request(key string, p *plan, op ratelimit.Op, foreign bool) *request {
	req := &request{key: t.keyName(key)}
	simple := !foreign && len(p.parts) == 1 && len(op.Past) == 0
	if t.store.cfg.Mode == Coalesced {
		req.origin = &origin{t, p, op, t.store.denials.keep(key)}
	}
	switch op.Kind {
	case ratelimit.Take, ratelimit.TakeAtMost, ratelimit.Reserve:
		simple = simple && (op.Kind != ratelimit.Reserve || p.parts[0].algorithm == algBucket)
	case ratelimit.Check, ratelimit.Drain:
	case ratelimit.Refund, ratelimit.Reset:
		simple = false
	}
	switch {
	case simple && p.parts[0].algorithm == algBucket && p.parts[0].c == 1:
		p.parts[0].bucketRequest(req, p, op)
	case simple && p.parts[0].algorithm == algWindow:
		p.parts[0].windowRequest(req, p, op)
	default:
		t.decideRequest(req, p, op)
	}
	return req
}

// undo makes the request that gives back what a take was granted; nil for an operation that is none.
func (req *request) undo(take ratelimit.Result) *request {
	o := req.origin
	if o == nil || take.Granted == 0 || o.op.Kind > ratelimit.Reserve {
		return nil
	}
	back := &request{key: req.key}
	o.table.decideRequest(back, o.plan, ratelimit.Op{Kind: ratelimit.Refund, Cost: take.Granted, Receipt: take.Receipt})
	decode := back.decode
	back.decode = func(now int64, reply []int64) (ratelimit.Result, bool) {
		o.table.store.denials.forget(o.table.prefix, o.kept)
		return decode(now, reply)
	}
	return back
}

// general makes a request one for decide, which reads every value; false if it is already.
func (req *request) general() bool {
	if req.width == 0 || req.origin == nil {
		return false
	}
	req.width = 0
	req.origin.table.decideRequest(req, req.origin.plan, req.origin.op)
	return true
}

// decideRequest is for decide: see lua/decide/head.lua.
func (t *table) decideRequest(req *request, p *plan, op ratelimit.Op) {
	plans := *t.plans.Load()
	specs := append(make([]*part, 0, 2*len(p.parts)), p.parts...)
	place := func(want *part) string {
		for i, spec := range specs {
			if spec == want {
				return number(int64(i + 1))
			}
		}
		specs = append(specs, want)
		return number(int64(len(specs)))
	}
	tail := []any{number(int64(len(op.Past)))}
	for _, was := range slices.Backward(op.Past) {
		tail = append(tail, number(t.store.since(was.Until).Microseconds()))
		for j := range p.parts {
			old := "0"
			if c := plans[was.Plan].counterpart(p, j); c != nil {
				old = place(c)
			}
			tail = append(tail, old)
		}
		if op.Kind == ratelimit.Reset {
			for _, part := range plans[was.Plan].parts {
				place(part)
			}
		}
	}
	if op.Kind == ratelimit.Refund {
		var taken []any
		for i, id := range op.Receipt.Plans {
			if id == 0 || int(id) >= len(plans) || len(plans[id].parts) != 1 {
				continue
			}
			taken = append(taken, place(plans[id].parts[0]), strconv.FormatUint(op.Receipt.Parts[i], 10))
		}
		tail = append(tail, number(int64(len(taken)/2)), number(op.Receipt.At))
		tail = append(tail, taken...)
	}
	set := uint(0)
	args := make([]any, 0, 6+5*len(specs)+len(tail))
	args = append(args, number(int64(op.Kind)), number(min(op.Cost, ratelimit.MaxPermits+1)), number(int64(op.MaxWait/time.Microsecond)),
		number(p.capacity), number(int64(len(p.parts))), number(int64(len(specs))))
	for _, spec := range specs {
		set |= spec.algorithm
		args = append(args, spec.spec...)
	}
	req.script, req.args = decideScript(set), append(args, tail...)
	req.decode = func(_ int64, n []int64) (ratelimit.Result, bool) {
		if len(n) < 10 {
			return ratelimit.Result{}, false
		}
		if parts := len(p.parts); parts > 1 {
			if len(n) < 10+2*parts {
				return ratelimit.Result{}, false
			}
			for i := len(n) - 2*parts; i < len(n); i += 2 {
				req.stands = append(req.stands, stand{n[i], micros(n[i+1])})
			}
			n = n[:len(n)-2*parts]
		}
		req.at = n[9]
		r := ratelimit.Result{
			Allowed: n[0] == 1, Granted: n[1], Limit: n[2], Remaining: n[3],
			Wait: micros(n[4]), RetryAfter: micros(n[5]), NextAfter: micros(n[6]), FullAfter: micros(n[7]),
			Plan: p.id, Which: int(n[8]),
		}
		if n[5] < 0 {
			r.RetryAfter = ratelimit.Never
		}
		for i := 10; i+1 < len(n) && i/2-5 < ratelimit.MaxLimits; i += 2 {
			if n[i] < 1 || n[i] > int64(len(specs)) {
				return ratelimit.Result{}, false
			}
			r.Receipt.At = n[9]
			r.Receipt.Plans[i/2-5], r.Receipt.Parts[i/2-5] = specs[n[i]-1].id, uint64(n[i+1])
		}
		return r, true
	}
}

// micros is a number of µs; it saturates.
func micros(n int64) time.Duration {
	if n > math.MaxInt64/1000 {
		return math.MaxInt64
	}
	return time.Duration(n) * time.Microsecond
}
