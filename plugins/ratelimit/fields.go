package ratelimit

import (
	"net/http"
	"strconv"
	"time"

	"github.com/gresil/gresil/internal/header"
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

// inform sets the fields about charges, of which one decides.
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
		setX(h, &c.result, values[1:])
	}
	if o.RateLimit {
		addDraft10(h, charges)
	}
}

// setX sets X-RateLimit-*, unless they are about an outer limit with fewer permits left. The values are for its use.
func setX(h http.Header, r *Result, values []string) {
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
	text := string(strconv.AppendInt(b, time.Now().Add(r.FullAfter+time.Second-1).Unix(), 10)) // rounded up
	values[0], values[1], values[2] = text[:i], text[i:j], text[j:]
	h[xLimit], h[xRemaining], h[xReset] = values[:1:1], values[1:2:2], values[2:3:3]
}

// addDraft10 adds RateLimit and RateLimit-Policy, which are lists with an item for each limit, to those of outer limits.
func addDraft10(h http.Header, charges []charge) {
	var limit []byte
	policy := ""
	for i := range charges {
		r, t := &charges[i].result, charges[i].limit.prepared()
		p := t.policy(r)
		if r.Limit <= 0 || p.item == "" { // nothing is known, or no name can be sent
			continue
		}
		if len(limit) > 0 {
			limit, policy = append(limit, ", "...), policy+", "
		}
		limit = strconv.AppendInt(append(append(limit, p.item...), ";r="...), min(r.Remaining, maxInteger), 10)
		if r.NextAfter > 0 {
			limit = strconv.AppendInt(append(limit, ";t="...), header.Seconds(r.NextAfter), 10)
		}
		if p.capacity == r.Limit {
			policy += t.line
		} else { // of a limit for one key, or by Override, only the capacity is known
			policy += p.item + ";q=" + strconv.FormatInt(min(r.Limit, maxInteger), 10)
		}
	}
	if len(limit) > 0 {
		h[limitField] = append(h[limitField], string(limit))
		h[policyField] = append(h[policyField], policy)
	}
}
