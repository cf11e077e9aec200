package retry

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/gresil/gresil/internal/blame"
)

// A StatusError represents a response that is retried: in the hooks, and in the
// [Error] of a request whose context ended in the wait, when the response is
// already closed.
type StatusError struct {
	StatusCode int
	rejection  error
}

// Error names the status.
func (e *StatusError) Error() string {
	return fmt.Sprintf("retry: status %d %s", e.StatusCode, http.StatusText(e.StatusCode))
}

// Unwrap returns the error that [client.Reject] made the response of, or nil for a
// response of a server.
func (e *StatusError) Unwrap() error { return e.rejection }

// ErrMaybeProcessed is matched by the error of a request whose failure is retried, but which
// must not be sent twice, and was sent. The error wraps that of the last attempt.
//
// If the body cannot be sent again, the error matches [client.ErrNotReplayable] or is
// that of GetBody instead.
var ErrMaybeProcessed = errors.New("the server may have processed it")

// A notRepeatedError is the error of a request whose failure is retried, but which must not
// or cannot be sent again.
type notRepeatedError struct {
	method string
	reason error // ErrMaybeProcessed, client.ErrNotReplayable, or that of GetBody
	err    error // of the only attempt, or of the last one
}

func (e *notRepeatedError) Error() string {
	return fmt.Sprintf("retry: %s was not repeated (%v): %v", e.method, e.reason, e.err)
}

func (e *notRepeatedError) Unwrap() []error { return []error{e.reason, e.err} }

// Timeout reports whether the error of the attempt is a timeout.
func (e *notRepeatedError) Timeout() bool { return blame.Timeout(e.err) }
