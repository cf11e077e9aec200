package known

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/gresil/gresil/outbound/gate"
)

// GitHub knows the primary limits by the names of their resources, such as "core", "search" and "graphql", and the limit
// "secondary". It knows refusals of GraphQL with the status 200. Any other 403 is no refusal.
//
// The pause is Retry-After, else the time until the reset if nothing remains, and otherwise a minute, as GitHub asks for that
// much at least; it does not grow. While something remains, the reset is not about the refusal, unless GraphQL says so: a query
// can cost more than what remains.
func GitHub(resp *http.Response, err error) gate.Signal {
	if resp == nil || err != nil {
		return read(resp, err)
	}
	from := *resp
	var body struct {
		Message string
		URL     string `json:"documentation_url"`
		Errors  []struct{ Type, Message string }
	}
	if from.StatusCode == http.StatusForbidden || from.StatusCode == http.StatusTooManyRequests || graphQL(resp) {
		_ = json.Unmarshal(peek(resp), &body)
	}
	secondary := strings.HasSuffix(body.URL, "secondary-rate-limits") || strings.HasSuffix(body.URL, "#abuse-rate-limits")
	text, told, resource := body.Message, false, from.Header.Get("X-RateLimit-Resource")
	for _, e := range body.Errors {
		if text += "\n" + e.Message; e.Type == "RATE_LIMITED" || e.Type == "RATE_LIMIT" {
			told, resource = true, cmp.Or(resource, "graphql")
		}
	}
	secondary = secondary || strings.Contains(strings.ToLower(text), "secondary rate limit")
	if from.StatusCode == http.StatusOK && (told || secondary) {
		from.StatusCode = http.StatusForbidden
	}
	s := read(&from, nil, gate.Header{Name: "X-RateLimit-Remaining", Format: gate.Remaining, Limit: resource},
		gate.Header{Name: "X-RateLimit-Reset", Format: gate.ResetAt, Limit: resource})
	primary := told || strings.TrimSpace(from.Header.Get("X-RateLimit-Remaining")) == "0"
	if from.StatusCode != http.StatusTooManyRequests && (from.StatusCode != http.StatusForbidden || !s.Limited && !primary && !secondary) {
		return s
	}
	if s.Limited, s.Limit, s.Reason = true, "secondary", "secondary"; primary && !secondary {
		s.Limit, s.Reason = resource, "primary"
	}
	if s.Pause == 0 && len(s.Quotas) > 0 && (s.Quotas[0].Remaining == 0 || told && !secondary) {
		s.Pause = s.Quotas[0].Reset
	}
	s.Pause = cmp.Or(s.Pause, time.Minute)
	return s
}
