package known

import (
	"bytes"
	"encoding/json"
	"net/http"

	"github.com/gresil/gresil/outbound/gate"
)

// GoogleAds knows the limits "account" and "developer". RESOURCE_EXHAUSTED without a delay may be about
// a day. The vendor does not tell, so it is Limited.
//
// PAYMENTS_PROFILE_ACTIVATION_RATE_LIMIT_EXCEEDED, which means a week, is Permanent. What [Google] knows is known here too.
func GoogleAds(resp *http.Response, err error) gate.Signal {
	s := Google(resp, err)
	if resp == nil || err != nil || resp.StatusCode < http.StatusBadRequest {
		return s
	}
	for _, a := range googleErrors(peek(resp)) {
		for _, d := range a.Error.Details {
			for _, e := range d.Errors {
				if e.ErrorCode.QuotaError == "PAYMENTS_PROFILE_ACTIVATION_RATE_LIMIT_EXCEEDED" {
					return gate.Signal{Permanent: true, Reason: "payments"}
				}
			}
		}
	}
	return s
}

// A googleError is the body of an error of Google. The names match without regard to case.
type googleError struct {
	Error struct {
		Status, Message string
		Errors          []struct{ Reason string }
		Details         []struct {
			RetryDelay string                     // of google.rpc.RetryInfo: seconds, as in 57.5s
			Violations []struct{ QuotaID string } // of google.rpc.QuotaFailure
			Errors     []struct{ ErrorCode struct{ QuotaError string } }
		}
	}
}

// googleErrors reads a body, which is an array if a stream of Google Ads failed.
func googleErrors(text []byte) []googleError {
	all := make([]googleError, 1)
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("[")) {
		_ = json.Unmarshal(text, &all)
	} else {
		_ = json.Unmarshal(text, &all[0])
	}
	return all
}
