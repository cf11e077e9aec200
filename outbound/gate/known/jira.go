package known

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/gresil/gresil/internal/fields"
	"github.com/gresil/gresil/outbound/gate"
)

// Jira knows the limits "quota" (points, of the app or a tenant), "burst" (of an endpoint) and "issue" (writes to one): the
// RateLimit-Reason of a refusal tells which. The pause is Retry-After, else X-RateLimit-Reset, else that of a quota in
// RateLimit of which nothing remains. Other policies in RateLimit, and what begins with Beta-, say nothing.
func Jira(resp *http.Response, err error) gate.Signal {
	if resp == nil || err != nil {
		return read(resp, err)
	}
	from, of, least := *resp, "burst", gate.Quota{} // a success tells of the burst limit
	reason := strings.TrimPrefix(from.Header.Get("RateLimit-Reason"), "jira-")
	limit := map[string]string{
		"quota-global-based": "quota", "quota-tenant-based": "quota", "burst-based": "burst", "per-issue-on-write": "issue",
	}[reason]
	if from.StatusCode == http.StatusTooManyRequests {
		of = limit
	}
	from.Header = maps.Clone(resp.Header)
	delete(from.Header, "Ratelimit") // gate.Classify would take any policy for the one that has refused
	if reset := from.Header["X-Ratelimit-Reset"]; len(reset) > 0 && from.StatusCode == http.StatusTooManyRequests && limit != "" {
		from.Header.Set("X-RateLimit-Remaining", "0") // that of another limit can be there
	}
	s := read(&from, nil, gate.Header{Name: "X-RateLimit-Remaining", Format: gate.Remaining, Limit: of},
		gate.Header{Name: "X-RateLimit-Reset", Format: gate.ResetTime, Limit: of})
	if s.Limited && limit != "" {
		s.Limit, s.Reason = limit, reason
	}
	policies, _ := httpsfv.UnmarshalList(resp.Header["Ratelimit"])
	for _, policy := range policies {
		p, _ := policy.(httpsfv.Item)
		if name, _ := p.Value.(string); !strings.HasSuffix(name, "-quota") || strings.HasPrefix(name, "Beta-") {
			continue
		}
		left, _ := p.Params.Get("r")
		in, _ := p.Params.Get("t")
		r, ok := fields.ParseNumber(fmt.Sprint(left)) // without r, there is plenty
		t, _ := fields.ParseNumber(fmt.Sprint(in))
		q := gate.Quota{Limit: "quota", Remaining: r.Whole, Reset: t.Times(time.Second)}
		if ok && (least.Limit == "" || q.Remaining < least.Remaining || q.Remaining == least.Remaining && q.Reset > least.Reset) {
			least = q
		}
	}
	if s.Limited && s.Pause == 0 && least.Remaining == 0 && (limit == "" || limit == "quota") {
		s.Pause = least.Reset
	}
	if least.Limit != "" && !fields.Cached(resp.Header) && (of != "quota" || len(s.Quotas) == 0) {
		s.Quotas = append(s.Quotas, least)
	}
	return s
}
