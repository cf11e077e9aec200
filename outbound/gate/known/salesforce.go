package known

import (
	"encoding/json"
	"maps"
	"net/http"
	"strings"

	"github.com/gresil/gresil/outbound/gate"
)

// Salesforce knows the limits "daily", of the organization, and "app", of a connected app. Sforce-Limit-Info says what is left
// of them, but not until when. A refusal is REQUEST_LIMIT_EXCEEDED, usually with the status 403, and without a time. It is Busy
// if its message is about concurrent calls. Otherwise it is Limited: the 24 hours are rolling ones, so waiting helps.
func Salesforce(resp *http.Response, err error) gate.Signal {
	if resp == nil || err != nil {
		return read(resp, err)
	}
	from := *resp
	if from.Header = maps.Clone(from.Header); from.Header != nil {
		// as in api-usage=18/5000; per-app-api-usage=17/250(appName=x)
		for field := range strings.SplitSeq(from.Header.Get("Sforce-Limit-Info"), ";") {
			name, usage, _ := strings.Cut(strings.TrimSpace(field), "=")
			if usage, _, _ = strings.Cut(usage, "("); name == "api-usage" || name == "per-app-api-usage" {
				from.Header.Set(name, usage)
			}
		}
	}
	s := read(&from, nil, gate.Header{Name: "Api-Usage", Format: gate.UsedOf, Limit: "daily"},
		gate.Header{Name: "Per-App-Api-Usage", Format: gate.UsedOf, Limit: "app"})
	if from.StatusCode < http.StatusBadRequest {
		return s
	}
	var errors []struct{ ErrorCode, Message string }
	_ = json.Unmarshal(peek(resp), &errors)
	for _, e := range errors {
		if e.ErrorCode == "REQUEST_LIMIT_EXCEEDED" {
			if s.Limited, s.Limit, s.Reason = true, "daily", "daily"; strings.Contains(e.Message, "Concurrent") {
				s.Limited, s.Busy, s.Limit, s.Reason = false, true, "", "concurrency"
			}
		}
	}
	return s
}
