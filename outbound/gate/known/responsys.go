package known

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/gresil/gresil/internal/fields"
	"github.com/gresil/gresil/outbound/gate"
)

// Responsys knows the limits "method" and "capacity". The one of a method is reset with each minute: the pause lasts until the
// next one of the vendor's clock. The capacity of the account is reset every 10 minutes, it is not known when: the pause lasts
// 10 minutes. API_BLOCKED is Permanent. The vendor does not document the status of a refusal: it can be any from 400 on.
func Responsys(resp *http.Response, err error) gate.Signal {
	s := read(resp, err)
	if resp == nil || err != nil || resp.StatusCode < http.StatusBadRequest {
		return s
	}
	var body struct{ ErrorCode string }
	_ = json.Unmarshal(peek(resp), &body)
	switch body.ErrorCode {
	case "API_LIMIT_EXCEEDED":
		pause := time.Minute
		if at, ok := fields.ParseDate(strings.TrimSpace(resp.Header.Get("Date"))); ok {
			pause -= at.Sub(at.Truncate(time.Minute))
		}
		s.Limited, s.Limit, s.Reason, s.Pause = true, "method", "minute", max(s.Pause, pause)
	case "INTERNAL_CAPACITY_LIMIT_EXCEEDED":
		s.Limited, s.Limit, s.Reason, s.Pause = true, "capacity", "capacity", max(s.Pause, 10*time.Minute)
	case "API_BLOCKED":
		return gate.Signal{Permanent: true, Reason: "blocked"}
	}
	return s
}
