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
	refused := !charges[decides].result.Allowed
	if !o.XRateLimit && !o.RateLimit {
		o.limited(h, new([1]string), refused)
		return
	}
	room := new(struct{ limited, limit, remaining, reset [1]string }) // in one allocation
	o.limited(h, &room.limited, refused)
	if o.XRateLimit {
		setX(h, &charges[decides], &room.limit, &room.remaining, &room.reset)
	}
	if o.RateLimit {
		addDraft10(h, charges)
	}
}

// limited sets X-Rate-Limited.
func (o *ServerOptions) limited(h http.Header, line *[1]string, refused bool) {
	if !o.NoXRateLimited {
		line[0] = strconv.FormatBool(refused)
		h[rateLimited] = line[:]
	}
}

// setX sets X-RateLimit-*, unless they are about an outer limit with fewer permits left.
func setX(h http.Header, c *charge, limit, remaining, reset *[1]string) {
	if outer := h[xRemaining]; len(outer) == 1 && c.result.Allowed {
		if left, err := strconv.ParseInt(outer[0], 10, 64); err == nil && left <= c.result.Remaining {
			return
		}
	}
	var buf [60]byte
	b := strconv.AppendInt(buf[:0], c.result.Limit, 10)
	i := len(b)
	b = strconv.AppendInt(b, c.result.Remaining, 10)
	j := len(b)
	text := string(strconv.AppendInt(b, time.Now().Add(c.result.FullAfter+time.Second-1).Unix(), 10)) // rounded up
	limit[0], remaining[0], reset[0] = text[:i], text[i:j], text[j:]
	h[xLimit], h[xRemaining], h[xReset] = limit[:], remaining[:], reset[:]
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
