package known

import (
	"encoding/json"
	"net/http"
	"slices"

	"github.com/gresil/gresil/outbound/gate"
)

// OpenAI knows the limits "requests" and "tokens". A 429 names one of them if it alone is used up and its reset is known. The
// limits of a day are in no header.
//
// OpenAI tells when a limit is full again, and not when it suffices for the next call. So a pause by such a reset can be longer
// than necessary; one by Retry-After is not. If that is too long, drop Signal.Quotas and a Pause without Retry-After in a function
// of your own.
//
// A 429 with insufficient_quota or billing_not_active is Permanent: somebody has to pay.
func OpenAI(resp *http.Response, err error) gate.Signal {
	s := openAIHeaders(resp, err)
	if s.Limited {
		var body struct{ Error struct{ Code, Type string } }
		_ = json.Unmarshal(peek(resp), &body)
		for _, is := range []string{body.Error.Code, body.Error.Type} {
			if is == "insufficient_quota" || is == "billing_not_active" {
				return gate.Signal{Permanent: true, Reason: "billing"}
			}
		}
	}
	return s
}

// openAIHeaders reads what OpenAI and Azure have in common. OpenAI writes a reset as 6m0s, Azure as a number of seconds.
func openAIHeaders(resp *http.Response, err error) gate.Signal {
	return usedUp(resp, read(resp, err,
		gate.Header{Name: "X-RateLimit-Remaining-Requests", Format: gate.Remaining, Limit: "requests"},
		gate.Header{Name: "X-RateLimit-Reset-Requests", Format: gate.ResetDuration, Limit: "requests"},
		gate.Header{Name: "X-RateLimit-Remaining-Tokens", Format: gate.Remaining, Limit: "tokens"},
		gate.Header{Name: "X-RateLimit-Reset-Tokens", Format: gate.ResetDuration, Limit: "tokens"},
	))
}

// usedUp names the limit of a 429 if it is the only one of which nothing is left. A reset after the end of Retry-After is left
// out: the limit is full then, but a call can pass before. Another status is not about these limits.
func usedUp(resp *http.Response, s gate.Signal) gate.Signal {
	limited := s.Limited && resp != nil && resp.StatusCode == http.StatusTooManyRequests
	used := func(q gate.Quota) bool { return limited && q.Remaining == 0 && q.Reset > 0 }
	if i := slices.IndexFunc(s.Quotas, used); i >= 0 && !slices.ContainsFunc(s.Quotas[i+1:], used) {
		s.Limit = s.Quotas[i].Limit
	}
	for i, q := range s.Quotas {
		if used(q) && q.Reset > s.Pause {
			s.Quotas[i].Reset = 0
		}
	}
	return s
}
