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

// ErrMaybeProcessed is the Reason for a request that must not be sent twice, and
// was sent.
var ErrMaybeProcessed = errors.New("the server may have processed it")

// A NotRepeatedError is the error of a request whose failure is retried, but which must
// not or cannot be sent again.
type NotRepeatedError struct {
	Method string
	Reason error // ErrMaybeProcessed, client.ErrNotReplayable, or why GetBody failed
	Err    error // of the only attempt, or of the last one
}

// Error contains the method, the reason and the error.
func (e *NotRepeatedError) Error() string {
	return fmt.Sprintf("retry: %s was not repeated (%v): %v", e.Method, e.Reason, e.Err)
}

// Unwrap returns the reason and the error.
func (e *NotRepeatedError) Unwrap() []error { return []error{e.Reason, e.Err} }

// Timeout reports whether Err is a timeout.
func (e *NotRepeatedError) Timeout() bool { return blame.Timeout(e.Err) }
