package known

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/gresil/gresil/internal/fields"
	"github.com/gresil/gresil/outbound/gate"
)

// Google knows the JSON errors of Google Cloud, Workspace and Gemini, without names of limits. The pause is the longest
// one of Retry-After and RetryInfo. A 403 is a refusal if its reason is rateLimitExceeded or userRateLimitExceeded.
//
// These are Permanent: a quota of a day, whatever delay comes with it; the reasons storageQuotaExceeded and
// insufficientPermissions; and RESOURCE_EXHAUSTED because a message is too large for gRPC, which is no limit at all.
func Google(resp *http.Response, err error) gate.Signal {
	if resp == nil || err != nil || resp.StatusCode < http.StatusBadRequest {
		return read(resp, err)
	}
	from, text := *resp, peek(resp)
	from.Body, from.Header = io.NopCloser(bytes.NewReader(text)), http.Header{}
	maps.Copy(from.Header, resp.Header)
	from.Header.Set("Content-Type", "application/json")
	s, permanent := gate.Classify(&from, nil), ""
	for _, a := range googleErrors(text) {
		for _, e := range a.Error.Errors {
			switch e.Reason {
			case "rateLimitExceeded", "userRateLimitExceeded":
				s.Limited, s.Reason = true, e.Reason
			case "storageQuotaExceeded", "insufficientPermissions":
				permanent = e.Reason
			}
		}
		if a.Error.Status == "RESOURCE_EXHAUSTED" && strings.Contains(a.Error.Message, "message larger than max") {
			permanent = "too large"
		}
		for _, d := range a.Error.Details {
			for _, v := range d.Violations {
				if strings.Contains(strings.ToLower(v.QuotaID), "perday") {
					permanent = "daily"
				}
			}
			if delay, _ := fields.ParseNumber(strings.TrimSuffix(d.RetryDelay, "s")); s.Limited {
				s.Pause = max(s.Pause, delay.Times(time.Second))
			}
		}
	}
	if permanent != "" {
		return gate.Signal{Permanent: true, Reason: permanent}
	}
	return s
}
