package ratelimit

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/header"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/problem"
	short "github.com/gresil/gresil/internal/text"
)

// A text is the text about a limit that is prepared before requests.
type text struct {
	limit  Limit
	parts  []part // the limits that And has joined
	policy string // RateLimit-Policy
}

// A part is one of the limits of a Limit.
type part struct {
	name     string        // as a client knows it
	alone    []*part       // only this one
	refusal  *problem.Body // 429
	item     string        // the same as a structured string (RFC 9651)
	capacity int64
	total    string // the text of the capacity
	window   int64  // seconds; 0: below one
}

const (
	maxInteger = 999_999_999_999_999 // of a structured field
	maxDigits  = 15
	maxSeconds = 11 // digits of a time.Duration, or of a Unix time
)

func newText(name string, limit Limit) *text {
	specs, names := limits.Limit(limit).Specs(), policyNames(name, limit)
	t := &text{limit: limit, parts: make([]part, len(specs))}
	var b []byte
	for i, spec := range specs {
		p, n := &t.parts[i], limits.Capacity(spec)
		*p = part{name: names[i], alone: []*part{p}, refusal: quotaExceeded(names[i]).Body(), item: quote(names[i]), capacity: n, total: string(appendNumber(nil, n))}
		if fill, _ := limits.FillTime(spec); fill >= time.Second {
			p.window = header.Seconds(fill)
		}
		b = t.appendPart(comma(b, 0), *p)
	}
	t.policy = string(b)
	return t
}

// policyNames are the names of the limits that And has joined: the name itself for
// one, and with the period for several, counted where that is the same.
func policyNames(name string, limit Limit) []string {
	specs := limits.Limit(limit).Specs()
	if len(specs) == 1 {
		return []string{name}
	}
	var names []string
	for _, spec := range specs {
		stem := name + "-" + short.Duration(spec.Period)
		unique := stem
		for i := 2; slices.Contains(names, unique); i++ {
			unique = stem + "-" + strconv.Itoa(i)
		}
		names = append(names, unique)
	}
	return names
}

// part is the one of the limits that decided.
func (t *text) part(r *Result) *part {
	if r.Which < 0 || r.Which >= len(t.parts) {
		return &t.parts[0] // a store that does not know better
	}
	return &t.parts[r.Which]
}

// overridden reports whether a key has another limit than that of the text.
func (t *text) overridden(r *Result) bool { return r.Limit > 0 && r.Limit != t.part(r).capacity }

// capacity returns the text of the capacity of a key.
func (t *text) capacity(r *Result) string {
	if p := t.part(r); p.capacity == r.Limit {
		return p.total
	}
	return string(appendNumber(nil, r.Limit))
}

// appendPolicy appends the limits of a key. Of a limit of its own only the capacity is
// known.
func (t *text) appendPolicy(b []byte, r *Result) []byte {
	if t.overridden(r) {
		p := *t.part(r)
		p.capacity, p.window = r.Limit, 0
		return t.appendPart(b, p)
	}
	return append(b, t.policy...)
}

// appendPart appends an item of RateLimit-Policy.
func (t *text) appendPart(b []byte, p part) []byte {
	b = appendNumber(append(append(b, p.item...), ";q="...), p.capacity)
	if p.window > 0 {
		b = appendNumber(append(b, ";w="...), p.window)
	}
	return b
}

// appendItem appends an item of RateLimit: the state of a key.
func (t *text) appendItem(b []byte, r *Result) []byte {
	b = appendNumber(append(append(b, t.part(r).item...), ";r="...), r.Remaining)
	if r.NextAfter > 0 {
		b = appendNumber(append(b, ";t="...), header.Seconds(r.NextAfter))
	}
	return b
}

// appendNumber appends a number that a structured field can hold.
func appendNumber(b []byte, n int64) []byte { return strconv.AppendInt(b, clamped(n), 10) }

// clamped returns the number that is sent for n.
func clamped(n int64) int64 { return min(max(0, n), maxInteger) }

// quote makes a structured string. Other characters, which only the pattern of a route can
// have, are percent-encoded, as in the path of a URL.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range []byte(s) {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ' || c > '~':
			fmt.Fprintf(&b, "%%%02X", c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// texts are those of a rule: of the limit of its limiter, and of those that hold by
// tier, or since the limit was changed.
type texts struct {
	name  string
	first *text
	owner *ratelimit.Limiter // whose limit is that of first
	more  sync.Map           // *ratelimit.Limiter to *text
}

func newTexts(name string, limiter *ratelimit.Limiter) *texts {
	return &texts{name: name, owner: limiter, first: newText(name, limiter.Limit())}
}

// of returns the text about the limit of a limiter that is in force.
func (t *texts) of(limiter *ratelimit.Limiter) *text {
	limit := limiter.Limit()
	if limiter == t.owner && limit == t.first.limit {
		return t.first
	}
	if v, ok := t.more.Load(limiter); ok {
		if known := v.(*text); known.limit == limit { // only texts are stored
			return known
		}
	}
	made := newText(t.name, limit)
	t.more.Store(limiter, made)
	return made
}

// comma separates the items of a list.
func comma(text []byte, start int) []byte {
	if len(text) > start {
		return append(text, ", "...)
	}
	return text
}
