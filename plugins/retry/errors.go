package retry

import (
	"errors"
	"fmt"
	"net/http"
)

// A StatusError stands for a response that is to be retried: in the hooks, and
// in the [CanceledError] of a request that was given up in the wait, when the
// response is gone. Who waits to the end gets the response itself.
type StatusError struct {
	StatusCode int
	rejection  error
}

// Error names the status.
func (e *StatusError) Error() string {
	return fmt.Sprintf("retry: status %d %s", e.StatusCode, http.StatusText(e.StatusCode))
}

// Unwrap returns the error that [client.Reject] made the response of, or nil when
// it is a real one.
func (e *StatusError) Unwrap() error { return e.rejection }

// ErrMaybeProcessed is the Reason for a request that may not be sent twice, and
// was sent.
var ErrMaybeProcessed = errors.New("the server may have processed it")

// A NotRepeatedError is the error of a request that failed in a way that is
// retried, and was not, because it must not or cannot be sent again.
type NotRepeatedError struct {
	Method string
	Reason error // ErrMaybeProcessed, client.ErrNotReplayable, or why GetBody failed
	Err    error // of the only attempt, or of the last one
}

// Error tells what was not done, why, and the error.
func (e *NotRepeatedError) Error() string {
	return fmt.Sprintf("retry: %s was not repeated (%v): %v", e.Method, e.Reason, e.Err)
}

// Unwrap returns the reason and the error.
func (e *NotRepeatedError) Unwrap() []error { return []error{e.Reason, e.Err} }

// Timeout tells whether the error is a timeout.
func (e *NotRepeatedError) Timeout() bool { return isTimeout(e.Err) }

func isTimeout(err error) bool {
	timeout, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err)
	return ok && timeout.Timeout()
}
