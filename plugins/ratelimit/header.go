package ratelimit

import (
	"net/http"
	"slices"
	"strconv"
	"unsafe"
)

// rateLimited is canonical, as all names of fields here, so that it is assigned directly.
const rateLimited = "X-Rate-Limited"

// fields writes the fields of one response, except X-Rate-Limited. Values and text have
// the room that the caller allocated for them; the rest is allocated as needed.
type fields struct {
	header http.Header
	style  HeaderStyle
	lines  *lines   // the lines so far, of HeaderDraft10; nil for a refusal
	values []string // room
	text   []byte   // its capacity is room; it is only appended to
}

// The room for the fields of one response. All styles together need more.
type (
	roomOfThree struct {
		values [3]string
		text   [40]byte
	}
	roomOfFive struct {
		values [5]string
		text   [72]byte
	}
)

// set sets a field to one value. A handler can append to it without changing others.
func (x *fields) set(field, value string) {
	if len(x.values) == 0 {
		x.values = make([]string, 1)
	}
	x.values[0] = value
	x.header[field] = x.values[:1:1]
	x.values = x.values[1:]
}

// number returns the text of a number, as a structured field can hold it.
func (x *fields) number(n int64) string {
	start := len(x.text)
	x.text = appendNumber(x.text, n)
	return x.since(start)
}

// since returns the text from start on, without a copy.
func (x *fields) since(start int) string {
	return unsafe.String(unsafe.SliceData(x.text[start:]), len(x.text)-start)
}

// limited sets X-Rate-Limited, which stays true if it is, to a line of its own.
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

// write sets the fields before the handler, or for a refusal, and reports whether those
// about one limit are ours.
func (x *fields) write(links []link, counts int, refused bool) (single bool) {
	if x.style&HeaderDraft10 != 0 {
		x.draft10(links)
	}
	l := &links[counts]
	for _, t := range x.style.trios() {
		if left, ok := number(x.header, t.names[remaining]); refused || !ok || clamped(l.result.Remaining) < left {
			x.trio(t, l)
			single = true
		}
	}
	return single
}

// update writes the fields that have changed since, unless the handler has deleted them. If an inner
// limiter refused the request, the fields about one limit are about its, unless they still have our
// numbers: it has no Headers. Where nothing was left, both can have the same numbers.
func (x *fields) update(c *Charge, refused bool) {
	if x.style&HeaderDraft10 != 0 && x.lines.limit != "" && len(x.header[limitField]) > 0 {
		x.draft10(c.links)
	}
	l := &c.links[least(c.links)]
	now := clamped(l.result.Remaining)
	inner := refused && slices.Contains(x.header[rateLimited], "true")
	for _, t := range x.style.trios() {
		of, _ := number(x.header, t.names[capacity])
		left, ok := number(x.header, t.names[remaining])
		ours := of == c.capacity && left == c.left
		if inner && (!ours || left == 0) {
			continue
		}
		if ok && (ours || now < left) {
			x.trio(t, l)
		}
	}
}

// drop deletes all fields, for a connection that is no HTTP any more.
func drop(h http.Header, style HeaderStyle) {
	delete(h, rateLimited)
	if style&HeaderDraft10 != 0 {
		delete(h, policyField)
		delete(h, limitField)
	}
	for _, t := range style.trios() {
		for _, name := range t.names {
			delete(h, name)
		}
	}
}

// unite repairs the header of a handler that copied the fields of an upstream to ours:
// our line is back in the lists, and all other fields have one value.
func unite(h http.Header, style HeaderStyle, ours *lines) {
	if lines := h[rateLimited]; len(lines) > 1 {
		h[rateLimited] = []string{strconv.FormatBool(slices.Contains(lines, "true"))}
	}
	if ours != nil {
		ours.unite(h)
	}
	for _, t := range style.trios() {
		for _, name := range t.names {
			if lines := h[name]; len(lines) > 1 {
				h[name] = lines[:1:1]
			}
		}
	}
}

// number is the number in a field.
func number(h http.Header, field string) (int64, bool) {
	if lines := h[field]; len(lines) > 0 {
		n, err := strconv.ParseInt(lines[0], 10, 64)
		return n, err == nil
	}
	return 0, false
}
