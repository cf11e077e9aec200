package ratelimit

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Canonical, so that they are assigned without looking.
const (
	rateLimited    = "X-Rate-Limited"
	policyField    = "Ratelimit-Policy"
	limitField     = "Ratelimit"
	xLimit         = "X-Ratelimit-Limit"
	xRemaining     = "X-Ratelimit-Remaining"
	xReset         = "X-Ratelimit-Reset"
	draftLimit     = "Ratelimit-Limit"
	draftRemaining = "Ratelimit-Remaining"
	draftReset     = "Ratelimit-Reset"
)

// A trio is three fields about one limit.
type trio struct {
	style                   HeaderStyle
	limit, remaining, reset string
}

// A variable, since a function that returns it takes 30 ns of each request.
var trios = [...]trio{ //nolint:gochecknoglobals // a constant table
	{HeaderXRateLimit | HeaderXRateLimitDelta, xLimit, xRemaining, xReset},
	{HeaderDraft03, draftLimit, draftRemaining, draftReset},
}

// A header holds the fields about one request but X-Rate-Limited, with all their text in
// one place.
type header struct {
	values        [5]string
	policy, limit string   // our lines in the fields that are lists
	text          [88]byte // enough for most; what does not fit is elsewhere
}

// The places of the values. Those of a second trio have none.
const (
	atPolicy = iota
	atLimit
	atTrio
)

// set sets a field to one value. It can be appended to without harm.
func (x *header) set(h http.Header, at int, field, value string) {
	if x.values[at] != "" {
		h[field] = []string{value}
		return
	}
	x.values[at] = value
	h[field] = x.values[at : at+1 : at+1]
}

// line puts a line into a field that is a list, in place of an old one. What others
// have put there stays.
func (x *header) line(h http.Header, at int, field, old, value string) {
	lines := h[field]
	i := -1
	if old != "" {
		i = slices.Index(lines, old)
	}
	switch {
	case i >= 0:
		lines = slices.Clone(lines)
		lines[i] = value
		h[field] = lines
	case len(lines) > 0:
		h[field] = append(lines, value)
	default:
		x.set(h, at, field, value)
	}
}

// limited sets X-Rate-Limited, which stays true when it is, to a line of its own.
func limited(h http.Header, line *[1]string, refused bool) {
	switch {
	case refused:
		line[0] = "true"
	case len(h[rateLimited]) > 0:
		return
	default:
		line[0] = "false"
	}
	h[rateLimited] = line[:]
}

// write sets the fields of a style before the handler, or for a refusal. It tells
// whether the fields about one limit are ours.
func (x *header) write(h http.Header, style HeaderStyle, links []link, counts int, refused bool) (single bool) {
	if style == 0 {
		return false
	}
	text := x.lists(h, x.text[:0], style, links)
	r := &links[counts].result
	now := told(r.Remaining)
	for i := range trios {
		t := &trios[i]
		if style&t.style == 0 {
			continue
		}
		if left, ok := number(h, t.remaining); refused || !ok || now < left {
			text = x.trio(h, text, style, t, &links[counts])
			single = true
		}
	}
	if style&HeaderDraft07 != 0 {
		if _, left, ok := dictionary(h); refused || !ok || now < left {
			x.dictionary(h, text, r)
			single = true
		}
	}
	return single
}

// update writes what has changed since, where it is still there. Refused tells that
// a plugin further in has refused the request: if it is a limiter, the fields that
// are about one limit are about its.
func (x *header) update(h http.Header, style HeaderStyle, c *Charge, refused bool) {
	links := c.links
	fresh := &header{policy: x.policy, limit: x.limit}
	text := fresh.text[:0]
	if x.present(h, style) {
		text = fresh.lists(h, text, style, links)
		x.policy, x.limit = fresh.policy, fresh.limit
	}
	if refused && slices.Contains(h[rateLimited], "true") {
		return
	}
	l := &links[least(links)]
	r := &l.result
	now := told(r.Remaining)
	ours := func(capacity, left int64) bool { return capacity == c.capacity && left == c.left || now < left }
	for i := range trios {
		t := &trios[i]
		if style&t.style == 0 {
			continue
		}
		capacity, _ := number(h, t.limit)
		if left, ok := number(h, t.remaining); ok && ours(capacity, left) {
			text = fresh.trio(h, text, style, t, l)
		}
	}
	if style&HeaderDraft07 != 0 {
		if capacity, left, ok := dictionary(h); ok && ours(capacity, left) {
			fresh.dictionary(h, text, r)
		}
	}
}

// restore writes what was there before the handler, where that has sent an
// informational header, after which some clear the map.
func (x *header) restore(h http.Header, style HeaderStyle, links []link, counts int) {
	fresh := &header{policy: x.policy, limit: x.limit} // the old text is in use
	fresh.write(h, style, links, counts, false)
	x.policy, x.limit = fresh.policy, fresh.limit
}

// drop takes all fields out, for a connection that is no HTTP any more.
func drop(h http.Header, style HeaderStyle) {
	delete(h, rateLimited)
	if style&(HeaderDraft10|HeaderDraft07) != 0 {
		delete(h, policyField)
		delete(h, limitField)
	}
	for i := range trios {
		t := &trios[i]
		if style&t.style != 0 {
			delete(h, t.limit)
			delete(h, t.remaining)
			delete(h, t.reset)
		}
	}
}

// present tells whether there is anything in the lists. A handler that has deleted
// them has meant it.
func (x *header) present(h http.Header, style HeaderStyle) bool {
	switch {
	case style&HeaderDraft10 != 0:
		return x.limit != "" && len(h[limitField]) > 0
	case style&HeaderDraft07 != 0:
		return x.policy != "" && len(h[policyField]) > 0
	}
	return false
}

// unite undoes what a handler has done that copied the fields of an upstream to
// ours: our line is back in the lists, and all other fields have one value.
func unite(h http.Header, style HeaderStyle, x *header) {
	if lines := h[rateLimited]; len(lines) > 1 {
		h[rateLimited] = []string{strconv.FormatBool(slices.Contains(lines, "true"))}
	}
	if style == 0 {
		return
	}
	if x != nil && x.policy != "" {
		again(h, policyField, x.policy, style)
	}
	if x != nil && x.limit != "" {
		again(h, limitField, x.limit, style)
	}
	if style&HeaderDraft07 != 0 {
		first(h, limitField)
	}
	for i := range trios {
		t := &trios[i]
		if style&t.style != 0 {
			first(h, t.limit)
			first(h, t.remaining)
			first(h, t.reset)
		}
	}
}

// again puts a line back into a list that was assigned to, and leaves out those in the
// form of the other draft: the field, joined, would be in none.
func again(h http.Header, field, line string, style HeaderStyle) {
	lines := h[field]
	if len(lines) == 0 || len(lines) == 1 && lines[0] == line {
		return
	}
	if !slices.Contains(lines, line) {
		lines = append([]string{line}, lines...)
	}
	h[field] = slices.DeleteFunc(slices.Clone(lines), func(other string) bool {
		if style&HeaderDraft10 == 0 {
			return strings.HasPrefix(other, `"`)
		}
		return strings.HasPrefix(other, dictLimit) || other != "" && other[0] >= '0' && other[0] <= '9'
	})
}

// first leaves the first of several values.
func first(h http.Header, field string) {
	if lines := h[field]; len(lines) > 1 {
		h[field] = lines[:1:1]
	}
}

// changedOnPurpose forgets the lines that a hook took out.
func (x *header) changedOnPurpose(h http.Header) {
	if !slices.Contains(h[policyField], x.policy) {
		x.policy = ""
	}
	if !slices.Contains(h[limitField], x.limit) {
		x.limit = ""
	}
}

// lists writes our lines of the fields that are lists.
func (x *header) lists(h http.Header, text []byte, style HeaderStyle, links []link) []byte {
	if style&(HeaderDraft10|HeaderDraft07) == 0 {
		return text
	}
	var policy string
	if len(links) == 1 && !links[0].text.overridden(&links[0].result) {
		policy = links[0].text.policy
	} else {
		start := len(text)
		for i := range links {
			if links[i].result.Limit > 0 {
				text = comma(text, start)
				text = links[i].text.appendPolicy(text, &links[i].result)
			}
		}
		policy = since(text, start)
	}
	x.line(h, atPolicy, policyField, x.policy, policy)
	x.policy = policy
	if style&HeaderDraft10 == 0 {
		return text
	}
	start := len(text)
	for i := range links {
		if links[i].result.Limit > 0 {
			text = comma(text, start)
			text = links[i].text.appendItem(text, &links[i].result)
		}
	}
	limit := since(text, start)
	x.line(h, atLimit, limitField, x.limit, limit)
	x.limit = limit
	return text
}

// trio writes three fields about one limit.
func (x *header) trio(h http.Header, text []byte, style HeaderStyle, t *trio, l *link) []byte {
	r := &l.result
	reset := seconds(r.NextAfter)
	if t.style&HeaderXRateLimit != 0 {
		reset = seconds(r.FullAfter)
		if style&HeaderXRateLimit != 0 {
			now := time.Now()
			reset = now.Unix() + seconds(time.Duration(now.Nanosecond())+r.FullAfter)
		}
	}
	x.set(h, atTrio, t.limit, l.text.capacity(&l.result))
	start := len(text)
	text = appendNumber(text, r.Remaining)
	x.set(h, atTrio+1, t.remaining, since(text, start))
	start = len(text)
	text = appendNumber(text, reset)
	x.set(h, atTrio+2, t.reset, since(text, start))
	return text
}

// dictionary writes the RateLimit of draft 07.
func (x *header) dictionary(h http.Header, text []byte, r *Result) {
	start := len(text)
	text = appendNumber(append(text, dictLimit...), r.Limit)
	text = appendNumber(append(text, dictRemaining...), r.Remaining)
	text = appendNumber(append(text, dictReset...), seconds(r.NextAfter))
	x.set(h, atLimit, limitField, since(text, start))
}

const (
	dictLimit     = "limit="
	dictRemaining = ", remaining="
	dictReset     = ", reset="
)

// dictionary is what the RateLimit of draft 07 says.
func dictionary(h http.Header) (capacity, left int64, ok bool) {
	line := h[limitField]
	if len(line) == 0 {
		return 0, 0, false
	}
	limit, rest, _ := strings.Cut(line[0], dictRemaining)
	rest, _, _ = strings.Cut(rest, ",")
	capacity, badLimit := strconv.ParseInt(strings.TrimPrefix(limit, dictLimit), 10, 64)
	left, badLeft := strconv.ParseInt(rest, 10, 64)
	return capacity, left, badLimit == nil && badLeft == nil
}

// number is the number in a field.
func number(h http.Header, field string) (int64, bool) {
	if lines := h[field]; len(lines) > 0 {
		n, err := strconv.ParseInt(lines[0], 10, 64)
		return n, err == nil
	}
	return 0, false
}
