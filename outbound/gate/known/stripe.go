package known

import (
	"encoding/json"
	"net/http"

	"github.com/gresil/gresil/outbound/gate"
)

// Stripe knows the limits "global", "endpoint" and "object". The vendor tells no time. A limit of concurrency, global or of an
// endpoint, is Busy. A 429 with lock_timeout is about a locked object: it is no refusal by a limit, and there is no pause.
func Stripe(resp *http.Response, err error) gate.Signal {
	s := read(resp, err)
	if resp == nil || err != nil || resp.StatusCode != http.StatusTooManyRequests {
		return s
	}
	switch reason := resp.Header.Get("Stripe-Rate-Limited-Reason"); reason {
	case "global-rate":
		s.Limit, s.Reason = "global", reason
	case "endpoint-rate":
		s.Limit, s.Reason = "endpoint", reason
	case "resource-specific":
		s.Limit, s.Reason = "object", reason
	case "global-concurrency":
		s.Limit, s.Reason, s.Limited, s.Busy = "global", reason, false, true
	case "endpoint-concurrency":
		s.Limit, s.Reason, s.Limited, s.Busy = "endpoint", reason, false, true
	case "":
		var body struct{ Error struct{ Code string } }
		if _ = json.Unmarshal(peek(resp), &body); body.Error.Code == "lock_timeout" {
			return gate.Signal{Reason: "lock"}
		}
	}
	return s
}
