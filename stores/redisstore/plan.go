package redisstore

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
)

// Numbers in a script are exact below 2^53.
const (
	maxCapacity = 1 << 51 // units of a full bucket
	maxDebt     = 1 << 52
)

// epoch is where times in the server begin: 2020, in µs of Unix.
const epoch = 1577836800_000_000

// A plan is a limit, made ready to be sent.
type plan struct {
	id       ratelimit.PlanID
	capacity int64
	parts    []*part
}

// A part is one limit: what the scripts call a spec.
type part struct {
	id        ratelimit.PlanID
	algorithm uint
	limit     ratelimit.Limit
	kind      string // what limits have in common that share what a key has taken
	permits   int64  // the capacity
	a, b, c   int64
	spec      []any // all of these as arguments
	one       []any // the arguments for a take of one, which is asked most
}

// newPart makes a limit ready that is valid and has its defaults, or says what a server
// cannot do.
func newPart(l ratelimit.Limit) (*part, error) {
	bad := func(field string, value any, reason string) error {
		return &core.ConfigError{Field: "ratelimit.Limit." + field, Value: value, Reason: reason}
	}
	us, whole := int64(l.Period/time.Microsecond), l.Period%time.Microsecond == 0
	p := &part{limit: l, permits: l.Permits, a: us}
	switch {
	case l.Custom != nil:
		return nil, bad("Custom", fmt.Sprintf("%T", l.Custom), "must be nil: Redis cannot run it")
	case l.Algorithm == ratelimit.AlgorithmTokenBucket:
		p.algorithm, p.kind, p.permits = algBucket, "b", l.Burst
		if p.a, p.b, p.c = units(l); p.c == 0 {
			return nil, bad("Burst", l.Burst, fmt.Sprintf("is more than Redis can count exactly at %d per %v: take a smaller burst, or permits that share a factor with the period", l.Permits, l.Period))
		}
	case !whole:
		return nil, bad("Period", l.Period, "must be whole microseconds in Redis")
	case l.Algorithm == ratelimit.AlgorithmFixedWindow && l.Aligned:
		p.algorithm, p.kind, p.b = algWindow, fmt.Sprintf("a%d", us), epoch%us
	case l.Algorithm == ratelimit.AlgorithmFixedWindow:
		p.algorithm, p.kind, p.b = algWindow, fmt.Sprintf("f%d", us), -1
	case l.Algorithm == ratelimit.AlgorithmSlidingWindow:
		p.algorithm, p.kind, p.b = algSliding, fmt.Sprintf("s%d/%d", us, l.Segments), us/int64(l.Segments)
		if us%int64(l.Segments) != 0 {
			return nil, bad("Segments", l.Segments, fmt.Sprintf("must divide the period, %v, into whole microseconds in Redis", l.Period))
		}
	case l.Algorithm == ratelimit.AlgorithmSlidingLog:
		p.algorithm, p.kind, p.b = algSliding, fmt.Sprintf("l%d", us), 1
	case l.Algorithm == ratelimit.AlgorithmSlidingCounter:
		p.algorithm, p.kind = algCounter, fmt.Sprintf("c%d", us)
	}
	p.spec = []any{p.kind, p.permits, p.a, p.b, p.c}
	for i, v := range p.spec[1:] {
		p.spec[i+1] = strconv.FormatInt(v.(int64), 10) //nolint:forcetypeassert // see above
	}
	switch p.algorithm {
	case algBucket:
		p.one = []any{number(p.b), number(p.permits * p.b), p.spec[2], "0"}
	case algWindow:
		p.one = []any{p.spec[0], p.spec[1], p.window(), "1"}
	}
	return p, nil
}

// window is the argument for the period.
func (p *part) window() any {
	if p.b >= 0 {
		return number(p.a) + "+" + number(p.b)
	}
	return p.spec[2]
}

// units are those of a bucket: mul of them in a tick of so many µs, and cost in a permit,
// with the finest tick in which a full bucket can be counted; a tick of 0 is none.
func units(l ratelimit.Limit) (mul, cost, tick int64) {
	g := gcd(int64(l.Period), l.Permits*1000)
	mul, cost = l.Permits*1000/g, int64(l.Period)/g
	for tick = 1; cost > maxCapacity/l.Burst; tick *= 10 {
		if cost%10 != 0 {
			return 0, 0, 0
		}
		cost /= 10
	}
	return mul, cost, tick
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// resolved is a single limit with its defaults in place.
func resolved(l ratelimit.Limit) ratelimit.Limit {
	switch {
	case l == ratelimit.Limit{}:
		l.Permits, l.Period = ratelimit.DefaultPermits, ratelimit.DefaultPeriod
	case l.Algorithm == ratelimit.AlgorithmTokenBucket && l.Burst == 0:
		l.Burst = l.Permits
	case l.Algorithm == ratelimit.AlgorithmSlidingWindow && l.Segments == 0:
		l.Segments = ratelimit.DefaultSegments
	}
	return l
}

// counterpart is the part of p that part i of next has replaced: the one of the same kind
// or, of those whose kind is gone, the one in the same place among those whose kind is new.
func (p *plan) counterpart(next *plan, i int) *part {
	in := func(parts []*part, kind string) int {
		return slices.IndexFunc(parts, func(part *part) bool { return part.kind == kind })
	}
	if j := in(p.parts, next.parts[i].kind); j >= 0 {
		return p.parts[j]
	}
	place := 0
	for _, part := range next.parts[:i] {
		if in(p.parts, part.kind) < 0 {
			place++
		}
	}
	for _, part := range p.parts {
		if in(next.parts, part.kind) >= 0 {
			continue
		}
		if place == 0 {
			return part
		}
		place--
	}
	return nil
}
