package client

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/blame"
)

// Classify returns the outcome of an attempt for a breaker. A status from 500 to 599 is a core.Failure, except 501 and 505, which concern
// only that request. An error is a core.Failure, that of a deadline included, whoever set it. But the outcome is core.Ignored if the caller
// has canceled the request, if the request could not be sent as it is, if its body failed or was still being sent when the time was up, or
// if an inner plugin has rejected it. Everything else is a core.Success, including a 429, and the errors of HTTP/2 that mean the same
// (ENHANCE_YOUR_CALM).
//
// req is the request as it was sent. Its body is known only if it comes from a [Replay].
func Classify(req *http.Request, resp *http.Response, err error) core.Outcome {
	known := blame.Of(err)
	switch ctx := req.Context(); {
	case err == nil && (resp == nil || resp.StatusCode >= 500 && resp.StatusCode <= 599 &&
		resp.StatusCode != http.StatusNotImplemented && resp.StatusCode != http.StatusHTTPVersionNotSupported):
		return core.Failure
	case err == nil:
		return core.Success
	case errors.Is(err, core.ErrRejected), errors.Is(err, core.ErrConfig), known != nil && known.Outcome == core.Ignored:
		return core.Ignored
	case ctx.Err() == context.Canceled: // whatever its cause, such as a timeout of a sibling
		return core.Ignored
	case blame.Any(err, refused), observed(req.Body).fault(ctx.Err() != nil || blame.Timeout(err)):
		return core.Ignored
	case blame.Throttled(err):
		return core.Success
	}
	return core.Failure
}

// refusals are the prefixes of the errors with which [http.Transport] refuses a request that an inner RoundTripper may
// have changed. It has no types for them.
var refusals = [...]string{ //nolint:gochecknoglobals // a constant
	"http: nil Request.",
	"http: no Host in request URL",
	"http: invalid Host header",
	"http: Request.ContentLength=",
	"net/http: invalid ",
	"net/http: can't write control character",
	"invalid Trailer key ",
	"unsupported protocol scheme ",
	"http2: invalid ",
	"http2: request header list larger than",
}

func refused(err error) bool {
	text := err.Error()
	return slices.ContainsFunc(refusals[:], func(r string) bool { return strings.HasPrefix(text, r) })
}
