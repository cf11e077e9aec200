package ratelimit

import (
	"net/http"
	"slices"
	"strings"
)

const (
	policyField = "Ratelimit-Policy"
	limitField  = "Ratelimit"
)

// lines are the lines of one plugin in the fields of HeaderDraft10, which are lists. A
// line is empty if a hook has deleted it.
type lines struct{ policy, limit string }

// draft10 writes our lines of RateLimit-Policy and RateLimit, an item for each limit.
func (x *fields) draft10(links []link) {
	policy := links[0].text.policy
	if len(links) > 1 || links[0].text.overridden(&links[0].result) {
		policy = x.list(links, true)
	}
	limit := x.list(links, false)
	var old lines
	if x.lines != nil {
		old, *x.lines = *x.lines, lines{policy, limit}
	}
	x.line(policyField, old.policy, policy)
	x.line(limitField, old.limit, limit)
}

// list returns a list with the items of all limits that decided.
func (x *fields) list(links []link, policies bool) string {
	start := len(x.text)
	for i := range links {
		switch l := &links[i]; {
		case l.result.Limit <= 0: // its store failed
		case policies:
			x.text = l.text.appendPolicy(comma(x.text, start), &l.result)
		default:
			x.text = l.text.appendItem(comma(x.text, start), &l.result)
		}
	}
	return x.since(start)
}

// line puts a line into a field that is a list, instead of an old one. The lines of
// others stay.
func (x *fields) line(field, old, value string) {
	all := x.header[field]
	i := -1
	if old != "" {
		i = slices.Index(all, old)
	}
	switch {
	case i >= 0:
		all = slices.Clone(all)
		all[i] = value
		x.header[field] = all
	case len(all) > 0:
		x.header[field] = append(all, value)
	default:
		x.set(field, value)
	}
}

// keep forgets the lines that a hook deleted from h.
func (x *lines) keep(h http.Header) {
	if !slices.Contains(h[policyField], x.policy) {
		x.policy = ""
	}
	if !slices.Contains(h[limitField], x.limit) {
		x.limit = ""
	}
}

// unite puts the lines back into lists that a handler replaced.
func (x *lines) unite(h http.Header) {
	again(h, policyField, x.policy)
	again(h, limitField, x.limit)
}

// again puts a line back into a list, and deletes lines in the form of draft 07: the
// field, joined, could not be parsed.
func again(h http.Header, field, line string) {
	all := h[field]
	if line == "" || len(all) == 0 || len(all) == 1 && all[0] == line {
		return
	}
	if !slices.Contains(all, line) {
		all = append([]string{line}, all...)
	}
	h[field] = slices.DeleteFunc(slices.Clone(all), func(other string) bool {
		return strings.HasPrefix(other, "limit=") || other != "" && other[0] >= '0' && other[0] <= '9'
	})
}
