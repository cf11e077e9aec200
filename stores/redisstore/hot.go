package redisstore

import (
	"cmp"
	"encoding/binary"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/gresil/gresil/internal/limits"
)

// foreign is the count in a reply for a value that only account can read.
const foreign = -1 << 53

// maxTexts is how many scripts of a kind can have the numbers of a limit in their text: a server keeps each script.
const maxTexts = 64

//nolint:gochecknoglobals // constants
var (
	// decisions are the parts of the scripts for takes that differ, by algorithm.
	decisions = map[uint]string{algBucket: "takebucket.lua", algWindow: "takewindow.lua"}
	// manyScripts are lua/many.lua, by algorithm.
	manyScripts = map[uint]func() *script{
		algBucket: sync.OnceValue(func() *script { return hotScript([]string{"now.lua", "many.lua"}, algBucket) }),
		algWindow: sync.OnceValue(func() *script { return hotScript([]string{"now.lua", "many.lua"}, algWindow) }),
	}
)

// hotScript returns the script of the files of a frame with a decision in it, and with the words of pairs replaced.
func hotScript(frame []string, algorithm uint, pairs ...string) *script {
	decide := read(decisions[algorithm], "takewrite.lua")
	return newScript(strings.NewReplacer(append(pairs, "DECIDE\n", decide)...).Replace(read(frame...)))
}

// takesOne returns the script that takes one permit of one key, which has the numbers of the limit in its text, or nil if the store has
// made too many.
func (p *part) takesOne(s *Store) *script {
	p.once.Do(func() {
		p.one = s.text(s.ones, p.name, func() *script {
			full, a, b := p.numbers()
			form, place := p.form()
			list := []string{"'" + p.name + "|'", full, a, cmp.Or(b, "nil"), "'" + form + "'", "'" + place + "'"}
			return hotScript([]string{"one.lua"}, p.algorithm, "LIMIT", strings.Join(list, ", "), "ONE", number(p.unit()))
		})
	})
	return p.one
}

// unit returns the units of a permit in lua/many.lua.
func (p *part) unit() int64 {
	if p.algorithm == algBucket {
		return p.b
	}
	return 1
}

// numbers returns the numbers of a limit in lua/many.lua.
func (p *part) numbers() (full, a, b string) {
	if p.algorithm == algBucket || p.aligned {
		b = number(p.b)
	}
	return number(p.Capacity * p.unit()), number(p.a), b
}

// form returns the form of a value for struct.unpack in lua/many.lua, and the place of the time in it.
func (p *part) form() (form, place string) {
	size := int64(len(p.name) + 1)
	form = "<c" + number(size) + "ddd"
	if p.algorithm == algWindow {
		form += "d"
	}
	return form, number(size + 8)
}

// forHot makes req a request for lua/many.lua, and returns false if that cannot decide it.
func (req *request) forHot() bool {
	p, op := req.plan.parts[0], &req.op
	reserve, partly := op.Kind == limits.Reserve && p.algorithm == algBucket, op.Kind == limits.TakeAtMost
	if len(req.plan.parts) > 1 || p.many == nil || op.Kind != limits.Take && !reserve && !partly || op.Cost > p.Capacity && !partly {
		return false
	}
	unit := p.unit()
	req.hot, req.charge, req.room = p, min(op.Cost, p.Capacity)*unit, p.Capacity*unit
	if partly {
		req.charge = -req.charge
	} else if reserve {
		req.room += min(int64(op.MaxWait/time.Microsecond), (maxDebt-req.room)/p.a) * p.a
	}
	return true
}

// usual reports whether req takes one permit.
func (req *request) usual() bool { return req.op.Kind == limits.Take && req.op.Cost == 1 }

// double returns a number of a reply.
func double(reply string, i int) int64 {
	return int64(math.Float64frombits(binary.LittleEndian.Uint64([]byte(reply[8*i : 8*i+8]))))
}

// decided reads the reply of lua/one.lua, or of lua/many.lua for the request at a place of its flight.
func (req *request) decided(reply string, place int) (r limits.Result, ok bool) {
	from := 1 + 3*place
	if len(reply) < 8*(from+1) {
		return r, false
	}
	now, count, extra := double(reply, 0), double(reply, from), int64(0)
	if len(reply) >= 8*(from+2) {
		extra = double(reply, from+1)
	}
	if count == foreign {
		return r, false
	}
	p, op, at, granted := req.hot, &req.op, now*1000, req.op.Cost
	if op.Kind == limits.TakeAtMost && op.Cost > 0 {
		if granted = double(reply, from+2) / p.unit(); granted == 0 {
			granted = -1
		}
	}
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
