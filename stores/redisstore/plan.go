package redisstore

import (
	"fmt"
	"sync"
	"time"

	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/validate"
)

// epoch is the zero of times in the server: the beginning of 2020, in µs since 1970.
const epoch = 1577836800_000_000

// maxDebt is the highest debt, in units: numbers in a script are exact below 2^53.
const maxDebt = 1 << 52

// clock is the clock of a server.
var clock = limits.Clock{Unix: epoch * 1000, Micros: true} //nolint:gochecknoglobals // a constant

// A plan is one limit, or several joined ones, prepared for sending.
type plan struct {
	*limits.Plan

	parts []*part
	head  string // the names of the limits, as lua/head.lua says
	once  sync.Once
	take  *script // nil if the store has used up maxTexts
}

func planOf(p *limits.Plan) *plan { return p.Store.(*plan) } //nolint:forcetypeassert // see prepare

// prepare prepares limits for sending. For a limit that a server cannot count, it returns a [*core.ConfigError].
func prepare(of *limits.Plan) (err error) {
	p := &plan{Plan: of, parts: make([]*part, len(of.Rules))}
	for i, r := range of.Rules {
		if len(of.Rules) > 1 {
			p.parts[i] = planOf(r.Alone()).parts[0]
		} else if p.parts[i], err = newPart(r); err != nil {
			return err
		}
		p.head += " " + p.parts[i].name
	}
	p.head = p.head[1:] + "|"
	of.Store = p
	return nil
}

// A part is one limit.
type part struct {
	*limits.Rule

	aligned   bool
	algorithm uint
	a, b, c   int64
	name      string // its name in the scripts: see lua/head.lua

	many  *script // nil if only account can decide
	head  []any   // its arguments for the limit
	usual []any   // its arguments for one permit
	once  sync.Once
	one   *script // takes one permit; nil if the store has used up maxTexts
}

func newPart(r *limits.Rule) (*part, error) {
	s := r.Spec
	us, period, kind := s.Period.Microseconds(), int64(0), ""
	if s.Algorithm != limits.TokenBucket && s.Period%time.Microsecond != 0 {
		return nil, validate.Bad("ratelimit.Limit.Period", s.Period, "must be whole microseconds in Redis")
	}
	p := &part{Rule: r, aligned: s.Aligned, a: us}
	switch s.Algorithm {
	case limits.TokenBucket:
		var tick int64
		p.a, p.b, tick = p.Bucket()
		p.algorithm, kind, p.c, period = algBucket, "b", tick/1000, int64(s.Period)
	case limits.FixedWindow:
		p.algorithm, kind = algWindow, "f"
		if s.Aligned {
			kind, p.b = "a", epoch%us
		}
	case limits.SlidingWindow:
		p.algorithm, kind, p.b = algSegments, "s", us/int64(s.Segments)
		if us%int64(s.Segments) != 0 {
			return nil, validate.Bad("ratelimit.Limit.Segments", s.Segments,
				fmt.Sprintf("must divide the period, %v, into whole microseconds in Redis", s.Period))
		}
	case limits.SlidingLog:
		p.algorithm, kind, p.b = algSegments, "l", 1
	case limits.SlidingCounter:
		p.algorithm, kind = algCounter, "c"
	}
	p.name = fmt.Sprintf("%s:%d:%d:%d:%d:%d", kind, p.Capacity, p.a, p.b, p.c, period)
	if many := manyScripts[p.algorithm]; many != nil && (p.algorithm == algWindow || p.c == 1) {
		full, a, b := p.numbers()
		form, place := p.form()
		p.many, p.head, p.usual = many(), []any{p.name + "|", full, a, b, form, place}, []any{number(p.unit()), full}
	}
	return p, nil
}
