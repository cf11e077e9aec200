package server

import (
	"context"
	"errors"
	"net/http"

	"github.com/gresil/gresil/core"
)

// Classify returns the outcome of a request for a breaker: a status from 500 on is a core.Failure, except 501 and 505, which concern only
// that request. The status is 0 for a connection that was taken over. If the client has left, the outcome is core.Ignored; if the deadline
// of the request has passed, it is a core.Failure. Everything else is a core.Success.
func Classify(r *http.Request, status int) core.Outcome {
	switch err := r.Context().Err(); {
	case errors.Is(err, context.DeadlineExceeded):
		return core.Failure
	case err != nil:
		return core.Ignored
	case status >= 500 && status != http.StatusNotImplemented && status != http.StatusHTTPVersionNotSupported:
		return core.Failure
	}
	return core.Success
}
