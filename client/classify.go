package client

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/gresil/gresil/core"
)

// Classify tells what a call says about the health of the server. ctx is the
// one of the request: whether the caller gave up is judged by it, not by the
// error, since a transport may return any error then, and an error of somebody
// else's context is no cancellation of this call.
//
//   - A response is a Failure when its status is 500 to 599, but for 501 and 505: those
//     say that the request is not one the server can serve, as a 4xx does, and
//     would say so again. Anything else is a Success, 429 and 408 too: a server
//     that limits its callers is alive.
//   - A rejection, as an error or as a response made by [Reject], is Ignored:
//     there was no call. So is a [core.ConfigError], of a plugin further in.
//   - An error is Ignored when the caller's context is done, by cancellation or
//     by a deadline that may have been too near. It is a Failure when that
//     context ended by a timeout of this module, or any that was set with
//     [context.WithTimeoutCause] and a cause of its own whose Timeout method
//     returns true: such a limit is there to tell a slow server. So
//     http.Client.Timeout alone, a deadline like any, opens no breaker: give each
//     attempt a limit with the timeout plugin.
//   - Any other error is a Failure.
func Classify(ctx context.Context, resp *http.Response, err error) core.Outcome {
	if err == nil {
		return classifyResponse(resp)
	}
	if errors.Is(err, core.ErrRejected) || errors.Is(err, core.ErrConfig) {
		return core.Ignored
	}
	if ctx.Err() != nil && !limited(ctx) || ctx.Err() == nil && late(ctx) {
		return core.Ignored
	}
	return core.Failure
}

// late tells whether the deadline of ctx is over. The timer of http.Client.Timeout
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

// limited tells whether a timeout with a cause of its own ended ctx. One that
// was cancelled is not such, even if the cause is somebody's timeout.
func limited(ctx context.Context) bool {
	if ctx.Err() != context.DeadlineExceeded {
		return false
	}
	cause := context.Cause(ctx)
	if cause == context.DeadlineExceeded { //nolint:errorlint // a deadline without a cause of its own
		return false
	}
	timeout, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](cause)
	return ok && timeout.Timeout()
}
