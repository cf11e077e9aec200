package redisstore

import (
	"encoding/binary"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/gresil/gresil/internal/limits"
)

// foreign is the count in a reply for a value that only account can read.
const foreign = -1 << 53

// maxTexts is how many limits can have a script with their numbers in its text: a server keeps each script.
const maxTexts = 64

// manyScripts are lua/many.lua, by algorithm.
//
//nolint:gochecknoglobals // constants
var manyScripts = map[uint]func() *script{
	algBucket: sync.OnceValue(func() *script { return hotScript("many.lua", "takebucket.lua") }),
	algWindow: sync.OnceValue(func() *script { return hotScript("many.lua", "takewindow.lua") }),
}

// hotScript returns the script of a frame with a decision in it, and with the words of pairs replaced.
func hotScript(frame, decide string, pairs ...string) *script {
	return newScript(strings.NewReplacer(append(pairs, "DECIDE\n", read(decide))...).Replace(read(frame)))
}

// text returns lua/one.lua with the numbers of the limit.
func (p *part) text() *script {
	full, a, b, one := p.numbers()
	if b == "" {
		b = "nil"
	}
	decide := map[uint]string{algBucket: "takebucket.lua", algWindow: "takewindow.lua"}[p.algorithm]
	return hotScript("one.lua", decide, "LIMIT", "'"+p.name+"|', "+strings.Join([]string{full, a, b}, ", "), "ONE", number(one))
}

// alone returns the script that takes one permit of one key, or nil.
func (p *part) alone(s *Store) *script {
	p.once.Do(func() {
		if s.texts.Add(1) <= maxTexts {
			p.one = p.text()
		}
	})
	return p.one
}

// numbers returns the numbers of a limit in lua/many.lua, and the units of a permit.
func (p *part) numbers() (full, a, b string, one int64) {
	if p.algorithm == algBucket {
		return number(p.Capacity * p.b), number(p.a), number(p.b), p.b
	}
	if p.aligned {
		b = number(p.b)
	}
	return number(p.Capacity), number(p.a), b, 1
}

// forHot makes req a request for lua/many.lua, and returns false if that cannot decide it.
func (req *request) forHot() bool {
	p, op := req.plan.parts[0], &req.op
	reserve := op.Kind == limits.Reserve && p.algorithm == algBucket
	if len(req.plan.parts) > 1 || p.many == nil || op.Kind != limits.Take && !reserve || op.Cost > p.Capacity {
		return false
	}
	unit, wait := int64(1), int64(op.MaxWait/time.Microsecond)
	if p.algorithm == algBucket {
		unit = p.b
	}
	req.hot, req.charge, req.room = p, op.Cost*unit, p.Capacity*unit
	if reserve {
		req.room = min(wait, (maxDebt-req.room)/p.a)*p.a + req.room
	}
	return true
}

// usual reports whether req takes one permit.
func (req *request) usual() bool { return req.op.Kind == limits.Take && req.op.Cost == 1 }

// double returns a number of a reply.
func double(reply string, i int) int64 {
	return int64(math.Float64frombits(binary.LittleEndian.Uint64([]byte(reply[8*i : 8*i+8]))))
}

// decided reads the reply of lua/many.lua for the request at a place of its flight.
func (req *request) decided(reply string, place int) (r limits.Result, ok bool) {
	if len(reply) < 8*(3+2*place) {
		return r, false
	}
	now, count, extra := double(reply, 0), double(reply, 1+2*place), double(reply, 2+2*place)
	if count == foreign {
		return r, false
	}
	p, op, at, granted := req.hot, &req.op, now*1000, req.op.Cost
	if count < 0 {
		count, granted = -1-count, -1
	}
	asked := req.plan.Asked(op)
	var raw limits.Raw
	if p.algorithm == algBucket {
		raw = p.OfDebt(count, now*1000, asked)
		if op.Kind == limits.Reserve && granted > 0 {
			at = p.OfDebt(count-req.charge, at, granted).Earliest()
		}
		extra += count
	} else {
		raw = p.OfWindow(extra*1000, count, now*1000, asked)
		extra += (count - 1) / p.Capacity * p.a
	}
	req.plan.Result(now*1000, op, granted, at, []limits.Raw{raw}, &r)
	if r.Receipt.At = now; r.Permits > 0 {
		r.Receipt.Parts[0] = uint64(extra)
	}
	return r, true
}
