package known

import (
	"bytes"
	"maps"
	"net/http"
	"slices"

	"github.com/gresil/gresil/outbound/gate"
)

// AzureOpenAI knows the limits "requests" and "tokens". A 429 names one of them if it alone is used up, and otherwise
// none: Azure also refuses too many calls within a few seconds. A value of -1 is unknown.
//
// x-ms-retry-after-ms is read like retry-after-ms: both take precedence over Retry-After, also if they are shorter. A 429 of
// Azure Resource Manager with RetryableErrorDueToAnotherOperation is about a locked resource, and no refusal by a limit.
func AzureOpenAI(resp *http.Response, err error) gate.Signal {
	if resp == nil || err != nil {
		return read(resp, err)
	}
	from := *resp
	if from.Header = maps.Clone(resp.Header); from.Header != nil {
		from.Header["Retry-After-Ms"] = slices.Concat(from.Header["Retry-After-Ms"], from.Header["X-Ms-Retry-After-Ms"])
	}
	s := openAIHeaders(&from, nil)
	if s.Limited && bytes.Contains(peek(resp), []byte(`"RetryableErrorDueToAnotherOperation"`)) {
		return gate.Signal{Reason: "lock", Quotas: s.Quotas}
	}
	return s
}
