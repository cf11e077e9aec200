package ratelimit

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gresil/gresil/internal/reject"
)

// The fields, in their canonical form, so that they can be assigned directly.
const (
	rateLimited = "X-Rate-Limited"
	xLimit      = "X-Ratelimit-Limit"
	xRemaining  = "X-Ratelimit-Remaining"
	xReset      = "X-Ratelimit-Reset"
	policyField = "Ratelimit-Policy"
	limitField  = "Ratelimit"
)

// inform sets the fields for charges, of which one decides.
func (o *ServerOptions) inform(h http.Header, charges []charge, decides int) {
	c, n := &charges[decides], 1
	if o.XRateLimit {
		n = 4
	}
	values := make([]string, n) // in one allocation
	if !o.NoXRateLimited {
		values[0] = strconv.FormatBool(!c.result.Allowed)
		h[rateLimited] = values[:1:1]
	}
	if o.XRateLimit {
		setX(h, &c.result, c.at, values[1:])
	}
	if o.RateLimit {
		addDraft10(h, charges)
	}
}

// setX sets X-RateLimit-*, unless they describe an outer limit that has at most as many permits left. It stores the values in values.
func setX(h http.Header, r *Result, at time.Time, values []string) {
	if outer := h[xRemaining]; len(outer) == 1 && r.Allowed {
		if left, err := strconv.ParseInt(outer[0], 10, 64); err == nil && left <= r.Remaining {
			return
		}
	}
	var buf [60]byte
	b := strconv.AppendInt(buf[:0], r.Limit, 10)
	i := len(b)
	b = strconv.AppendInt(b, r.Remaining, 10)
	j := len(b)
	text := string(strconv.AppendInt(b, at.Add(r.FullAfter+time.Second-1).Unix(), 10)) // rounded up
	values[0], values[1], values[2] = text[:i], text[i:j], text[j:]
	h[xLimit], h[xRemaining], h[xReset] = values[:1:1], values[1:2:2], values[2:3:3]
}

// addDraft10 adds RateLimit and RateLimit-Policy, which are lists with an item for each limit, to those of outer limits. No two items have
// the same name.
func addDraft10(h http.Header, charges []charge) {
	var limit []byte
	policies, outer := "", strings.Join(h[policyField], ", ")
	for i := range charges {
		r := &charges[i].result
		if r.Limit <= 0 { // nothing is known
			continue
		}
		all, decided := charges[i].limit.prepared(r)
		for j := range all {
			p := &all[j]
			item, line := p.item, p.line
			if item == "" { // the name cannot be sent
				continue
			}
			for n := 2; strings.Contains(outer, item) || strings.Contains(policies, item); n++ {
				item = strings.TrimSuffix(p.item, `"`) + "-" + strconv.Itoa(n) + `"`
				line = item + p.line[len(p.item):]
			}
			if policies != "" {
				policies += ", "
			}
			policies += line
			if p == decided {
				limit = appendItem(limit, item, r)
			}
		}
	}
	if len(limit) > 0 {
		h[limitField] = append(h[limitField], string(limit))
		h[policyField] = append(h[policyField], policies)
	}
}

// appendItem appends an item of RateLimit to a list.
func appendItem(list []byte, item string, r *Result) []byte {
	if len(list) > 0 {
		list = append(list, ", "...)
	}
	list = strconv.AppendInt(append(append(list, item...), ";r="...), r.Remaining, 10)
	if r.NextAfter > 0 {
		list = strconv.AppendInt(append(list, ";t="...), reject.Seconds(r.NextAfter), 10)
	}
	return list
}
