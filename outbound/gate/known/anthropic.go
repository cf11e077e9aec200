package known

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/gresil/gresil/outbound/gate"
)

// Anthropic knows the limits "requests", "input" and "output", the last two in tokens. A 429 names one of them if it alone is
// used up and its reset is known. Its pause is Retry-After, else the longest reset of a limit that is used up. As with [OpenAI],
// a limit is full at its reset, so that a call could pass before.
//
// A 529 is Busy: the vendor is overloaded, whatever you have used. With a Retry-After it is Limited. A 429 because of the cap
// on your spending is Permanent if its message says so; otherwise nothing tells it apart.
func Anthropic(resp *http.Response, err error) gate.Signal {
	s := usedUp(resp, read(resp, err,
		gate.Header{Name: "Anthropic-RateLimit-Requests-Remaining", Format: gate.Remaining, Limit: "requests"},
		gate.Header{Name: "Anthropic-RateLimit-Requests-Reset", Format: gate.ResetTime, Limit: "requests"},
		gate.Header{Name: "Anthropic-RateLimit-Input-Tokens-Remaining", Format: gate.Remaining, Limit: "input"},
		gate.Header{Name: "Anthropic-RateLimit-Input-Tokens-Reset", Format: gate.ResetTime, Limit: "input"},
		gate.Header{Name: "Anthropic-RateLimit-Output-Tokens-Remaining", Format: gate.Remaining, Limit: "output"},
		gate.Header{Name: "Anthropic-RateLimit-Output-Tokens-Reset", Format: gate.ResetTime, Limit: "output"},
	))
	if resp == nil || err != nil {
		return s
	}
	switch resp.StatusCode {
	case 529:
		s.Busy, s.Reason = !s.Limited, "overloaded"
	case http.StatusTooManyRequests:
		var body struct{ Error struct{ Message string } }
		if _ = json.Unmarshal(peek(resp), &body); strings.Contains(body.Error.Message, "spend limit") {
			return gate.Signal{Permanent: true, Reason: "billing"}
		}
	}
	return s
}
