package known

import (
	"net/http"

	"github.com/gresil/gresil/outbound/gate"
)

// Anthropic knows the limits "requests", "input" and "output", the last two in tokens. A refusal names one of them if it
// alone is used up. Its pause is Retry-After, else the longest reset of a limit that is used up.
//
// A 529 is Busy: the vendor is overloaded, whatever you have used. With a Retry-After it is Limited. A 429 because of the cap
// on your spending has no Retry-After. As nothing else tells it apart, it is Limited, without a Pause.
func Anthropic(resp *http.Response, err error) gate.Signal {
	s := usedUp(read(resp, err,
		gate.Header{Name: "Anthropic-RateLimit-Requests-Remaining", Format: gate.Remaining, Limit: "requests"},
		gate.Header{Name: "Anthropic-RateLimit-Requests-Reset", Format: gate.ResetTime, Limit: "requests"},
		gate.Header{Name: "Anthropic-RateLimit-Input-Tokens-Remaining", Format: gate.Remaining, Limit: "input"},
		gate.Header{Name: "Anthropic-RateLimit-Input-Tokens-Reset", Format: gate.ResetTime, Limit: "input"},
		gate.Header{Name: "Anthropic-RateLimit-Output-Tokens-Remaining", Format: gate.Remaining, Limit: "output"},
		gate.Header{Name: "Anthropic-RateLimit-Output-Tokens-Reset", Format: gate.ResetTime, Limit: "output"},
	))
	if resp != nil && err == nil && resp.StatusCode == 529 {
		s.Busy, s.Reason = !s.Limited, "overloaded"
	}
	return s
}
