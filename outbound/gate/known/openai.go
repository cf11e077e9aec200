package known

import (
	"encoding/json"
	"net/http"
	"slices"

	"github.com/gresil/gresil/outbound/gate"
)

// OpenAI knows the limits "requests" and "tokens". A refusal names one of them if it alone is used up. The limits of a day are
// in no header.
//
// OpenAI tells when a limit is full again, and not when it suffices for the next call. So a pause by such a reset can be longer
// than necessary; one by Retry-After is not. If that is too long, drop Signal.Quotas in a function of your own.
//
// A 429 with insufficient_quota is Permanent: somebody has to pay.
func OpenAI(resp *http.Response, err error) gate.Signal {
	s := openAIHeaders(resp, err)
	if s.Limited {
		var body struct{ Error struct{ Code, Type string } }
		_ = json.Unmarshal(peek(resp), &body)
		if body.Error.Code == "insufficient_quota" || body.Error.Type == "insufficient_quota" {
			return gate.Signal{Permanent: true, Reason: "billing"}
		}
	}
	return s
}

// openAIHeaders reads what OpenAI and Azure have in common. OpenAI writes a reset as 6m0s, Azure as a number of seconds.
func openAIHeaders(resp *http.Response, err error) gate.Signal {
	return usedUp(read(resp, err,
		gate.Header{Name: "X-RateLimit-Remaining-Requests", Format: gate.Remaining, Limit: "requests"},
		gate.Header{Name: "X-RateLimit-Reset-Requests", Format: gate.ResetDuration, Limit: "requests"},
		gate.Header{Name: "X-RateLimit-Remaining-Tokens", Format: gate.Remaining, Limit: "tokens"},
		gate.Header{Name: "X-RateLimit-Reset-Tokens", Format: gate.ResetDuration, Limit: "tokens"},
	))
}

// usedUp names the limit of a refusal if it is the only one of which nothing is left. A reset after the end of Retry-After is
// left out: the limit is full then, but a call can pass before.
func usedUp(s gate.Signal) gate.Signal {
	used := func(q gate.Quota) bool { return s.Limited && q.Remaining == 0 && q.Reset > 0 }
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
