package client

import (
	"context"
	"errors"
	"net/http"
	"time"

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
//   - An error is Ignored if the caller's context is done, by cancellation or
//     by a deadline, which may have been too near; and if [Explain] finds the caller at
//     fault. http.Client.Timeout alone is a plain deadline, and opens no breaker: give
//     each attempt a limit with the timeout plugin.
//   - A context that ended by a timeout of this module, or by any that was set with
//     [context.WithTimeoutCause] and a cause whose Timeout method returns true, is a
//     limit that detects slow calls. If such an outer limit ends an attempt, that is a
//     Failure if the attempt had at least half of its own limit, which is that of the
//     timeout plugin around it; without one, at least half of the outer limit.
//     Otherwise it is Ignored: other work, or a queue, has used up the time. The timeout
//     and breaker plugins do that sum: they know when the attempt began. A method
//     TimeLimit() time.Duration of the cause returns the outer limit, as that of
//     timeout.Error in core/timeout does. Without the method it is a Failure.
//   - Any other error is a Failure.
func Classify(ctx context.Context, resp *http.Response, err error) core.Outcome {
	if err == nil {
		return classifyResponse(resp)
	}
	known := blame.Of(err)
	switch {
	case errors.Is(err, core.ErrRejected), errors.Is(err, core.ErrConfig), known != nil && known.Outcome == core.Ignored:
		return core.Ignored
	case ctx.Err() == nil:
		if late(ctx) {
			return core.Ignored
		}
	default:
		if _, limited := blame.Struck(ctx); !limited {
			return core.Ignored
		}
	}
	if h2err.Throttled(err) {
		return core.Success
	}
	return core.Failure
}

// late reports whether the deadline of ctx is over. The timer of http.Client.Timeout
// may end a request a moment before the context's own does.
func late(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ok && !time.Now().Before(deadline)
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
