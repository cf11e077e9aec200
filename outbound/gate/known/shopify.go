package known

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/gresil/gresil/outbound/gate"
)

// Shopify knows REST and GraphQL. It names no limit. The limits of the two are independent: use a Gate for each, or limits
// whose Key leaves the calls of the other one out.
//
// A refusal of GraphQL has the status 200. The pause is the time until the points for the query are there; a query that needs
// more than the bucket can hold is Permanent. A Quota is in calls for REST, without a time, so that it holds nothing, and in
// points for GraphQL, with the time until the same query could be sent again. A 423, which is a locked shop, is Permanent.
func Shopify(resp *http.Response, err error) gate.Signal {
	s := read(resp, err, gate.Header{Name: "X-Shopify-Shop-Api-Call-Limit", Format: gate.UsedOf})
	if resp == nil || err != nil {
		return s
	}
	if resp.StatusCode == http.StatusLocked {
		return gate.Signal{Permanent: true, Reason: "locked"}
	}
	if !graphQL(resp) {
		return s
	}
	var body struct {
		Data   any
		Errors []struct {
			Message    string
			Extensions struct{ Code string }
		}
		Extensions struct {
			Cost struct {
				RequestedQueryCost float64
				ActualQueryCost    *float64 // null in a refusal
				ThrottleStatus     struct{ MaximumAvailable, CurrentlyAvailable, RestoreRate float64 }
			}
		}
	}
	_ = json.Unmarshal(peek(resp), &body)
	cost, bucket := body.Extensions.Cost, body.Extensions.Cost.ThrottleStatus
	need, left, most, rate := cost.RequestedQueryCost, bucket.CurrentlyAvailable, bucket.MaximumAvailable, bucket.RestoreRate
	if most > 0 && rate > 0 {
		s.Quotas = []gate.Quota{{Remaining: int64(max(0, min(left, 1e18))), Reset: seconds((need - left) / rate)}}
		s.Limited = body.Data == nil && cost.ActualQueryCost == nil && need > left
	}
	for _, e := range body.Errors {
		s.Limited = s.Limited || e.Extensions.Code == "THROTTLED" || strings.EqualFold(e.Message, "Throttled")
	}
	switch {
	case s.Limited && most > 0 && need > most:
		return gate.Signal{Permanent: true, Reason: "cost"}
	case s.Limited && len(s.Quotas) > 0:
		s.Pause, s.Reason = s.Quotas[0].Reset, "cost"
	}
	return s
}
