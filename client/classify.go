package client

import (
	"context"
	"errors"
	"net/http"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/blame"
	"github.com/gresil/gresil/internal/h2err"
)

// Classify returns how a call ended, as far as the health of the server goes. ctx is
// that of the request. It decides whether the caller gave up, not the error: a transport
// may return any error then, and an error of another context is no cancellation of this
// call.
//
//   - A response is a Failure if its status is 500 to 599, except 501 and 505: the
//     server cannot serve such a request, as with a 4xx, now or later. All
//     others are a Success, also 429 and 408: a server that limits its callers is up.
//     An HTTP/2 stream or connection that the server ends with ENHANCE_YOUR_CALM counts
//     as a 429.
//   - A rejection, as an error or as a response made by [Reject], is Ignored:
//     there was no call. So is a [core.ConfigError] of an inner plugin.
//   - An error is Ignored if the caller has canceled ctx, and if [Explain] finds the
//     caller at fault.
//   - Any other error is a Failure, also that of a deadline, whoever set it: the caller,
//     http.Client.Timeout, or a timeout plugin.
func Classify(ctx context.Context, resp *http.Response, err error) core.Outcome {
	if err == nil {
		return classifyResponse(resp)
	}
	known := blame.Of(err)
	switch {
	case errors.Is(err, core.ErrRejected), errors.Is(err, core.ErrConfig), known != nil && known.Outcome == core.Ignored:
		return core.Ignored
	case errors.Is(ctx.Err(), context.Canceled):
		return core.Ignored
	case h2err.Throttled(err):
		return core.Success
	}
	return core.Failure
}

func classifyResponse(resp *http.Response) core.Outcome {
	switch {
	case resp == nil: // no RoundTripper should; it did not work, at any rate
		return core.Failure
	case resp.StatusCode < 400:
		return core.Success
	case Rejected(resp) != nil:
		return core.Ignored
	case resp.StatusCode < 500, resp.StatusCode > 599, resp.StatusCode == http.StatusNotImplemented, resp.StatusCode == http.StatusHTTPVersionNotSupported:
		return core.Success
	}
	return core.Failure
}
