package ratelimit

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"
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

func trios() [2]trio {
	return [2]trio{
		{HeaderXRateLimit | HeaderXRateLimitDelta, xLimit, xRemaining, xReset},
		{HeaderDraft03, draftLimit, draftRemaining, draftReset},
	}
}

// A header holds the fields about one request, with all their text in one place.
type header struct {
	values        [6]string
	text          [95]byte // enough for most
	n             uint8    // values in use
	policy, limit string   // our lines in the fields that are lists
	capacity      int64    // as told, by the fields about one limit, if they are ours
	left          int64
}

// set sets a field to one value. It can be appended to without harm.
func (x *header) set(h http.Header, field, value string) {
	if int(x.n) == len(x.values) {
		h[field] = []string{value}
		return
	}
	line := x.values[x.n : x.n+1 : x.n+1]
	x.n++
	line[0] = value
	h[field] = line
}

// line puts a line into a field that is a list, in place of an old one. What others
// have put there stays.
func (x *header) line(h http.Header, field, old, value string) {
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
		x.set(h, field, value)
	}
}

// limited sets X-Rate-Limited, which stays true when it is.
func (x *header) limited(h http.Header, refused bool) {
	if refused {
		x.set(h, rateLimited, "true")
	} else if len(h[rateLimited]) == 0 {
		x.set(h, rateLimited, "false")
	}
}

// write sets the fields of a style before the handler, or for a refusal.
func (x *header) write(h http.Header, style HeaderStyle, links []link, counts int, refused bool) {
	x.limited(h, refused)
	if style == 0 {
		return
	}
	text := x.room(links)
	text = x.lists(h, text, style, links)
	r := &links[counts].result
	x.left = -1 // nothing of ours
	now := told(r.Remaining)
	for _, t := range trios() {
		if style&t.style == 0 {
			continue
		}
		if left, ok := number(h, t.remaining); refused || !ok || now < left {
			text = x.trio(h, text, style, t, r)
			x.capacity, x.left = told(r.Limit), now
		}
	}
	if style&HeaderDraft07 != 0 {
		if _, left, ok := dictionary(h); refused || !ok || now < left {
			x.dictionary(h, text, r)
			x.capacity, x.left = told(r.Limit), now
		}
	}
}

// update writes what has changed since, where it is still there. Refused tells that
// a plugin further in has refused the request: if it is a limiter, the fields that
// are about one limit are about its.
func (x *header) update(h http.Header, style HeaderStyle, links []link, counts int, refused bool) {
	if style == 0 {
		return
	}
	fresh := &header{policy: x.policy, limit: x.limit}
	text := fresh.room(links)
	if x.present(h, style) {
		text = fresh.lists(h, text, style, links)
		x.policy, x.limit = fresh.policy, fresh.limit
	}
	if refused && slices.Contains(h[rateLimited], "true") {
		return
	}
	r := &links[counts].result
	now := told(r.Remaining)
	ours := func(capacity, left int64) bool { return capacity == x.capacity && left == x.left || now < left }
	for _, t := range trios() {
		if style&t.style == 0 {
			continue
		}
		capacity, _ := number(h, t.limit)
		if left, ok := number(h, t.remaining); ok && ours(capacity, left) {
			text = fresh.trio(h, text, style, t, r)
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
	for _, t := range trios() {
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
func (x *header) unite(h http.Header, style HeaderStyle) {
	if lines := h[rateLimited]; len(lines) > 1 {
		x.set(h, rateLimited, strconv.FormatBool(slices.Contains(lines, "true")))
	}
	if style == 0 {
		return
	}
	if x.policy != "" {
		again(h, policyField, x.policy, style)
	}
	if x.limit != "" {
		again(h, limitField, x.limit, style)
	}
	if style&HeaderDraft07 != 0 {
		first(h, limitField)
	}
	for _, t := range trios() {
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

// room returns where to write to.
func (x *header) room(links []link) []byte {
	need := 0
	for i := range links {
		need += links[i].text.room
	}
	if need > len(x.text) {
		return make([]byte, 0, need)
	}
	return x.text[:0]
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
	x.line(h, policyField, x.policy, policy)
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
	x.line(h, limitField, x.limit, limit)
	x.limit = limit
	return text
}

// trio writes three fields about one limit.
func (x *header) trio(h http.Header, text []byte, style HeaderStyle, t trio, r *Result) []byte {
	reset := seconds(r.NextAfter)
	if t.style&HeaderXRateLimit != 0 {
		reset = seconds(r.FullAfter)
		if style&HeaderXRateLimit != 0 {
			now := time.Now()
			reset = now.Unix() + seconds(time.Duration(now.Nanosecond())+r.FullAfter)
		}
	}
	for i, n := range [...]int64{r.Limit, r.Remaining, reset} {
		start := len(text)
		text = appendNumber(text, n)
		x.set(h, [...]string{t.limit, t.remaining, t.reset}[i], since(text, start))
	}
	return text
}

// dictionary writes the RateLimit of draft 07.
func (x *header) dictionary(h http.Header, text []byte, r *Result) {
	start := len(text)
	text = appendNumber(append(text, dictLimit...), r.Limit)
	text = appendNumber(append(text, dictRemaining...), r.Remaining)
	text = appendNumber(append(text, dictReset...), seconds(r.NextAfter))
	x.set(h, limitField, since(text, start))
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

// since makes a value of what was written from start on. Text is only ever
// appended to.
func since(text []byte, start int) string {
	return unsafe.String(unsafe.SliceData(text[start:]), len(text)-start)
}

// comma separates the items of a list.
func comma(text []byte, start int) []byte {
	if len(text) > start {
		return append(text, ", "...)
	}
	return text
}
