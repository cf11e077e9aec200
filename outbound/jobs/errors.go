package jobs

import (
	"errors"
	"fmt"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/closed"
)

var (
	// ErrExists is the error of Enqueue if the ID of the job is in use in its queue, by one that has
	// not failed.
	ErrExists = errors.New("jobs: a job with this ID exists")
	// ErrNotFound is the error of an operation on a job that is not in its queue.
	ErrNotFound = errors.New("jobs: no such job")
	// ErrState is the error of an operation on a job whose state does not permit it.
	ErrState = errors.New("jobs: the state of the job does not permit this")
	// ErrFull is the error of Enqueue if the engine has no room. It matches [core.ErrRejected].
	ErrFull = fmt.Errorf("jobs: the engine is full: %w", core.ErrRejected)
	// ErrClosed is the error of an operation after Close. It matches [core.ErrRejected], and
	// waiting does not help.
	ErrClosed error = &closed.Error{Text: "jobs: closed"}
	// ErrRunning is the error of a Run while another one runs.
	ErrRunning = errors.New("jobs: Run is running already")

	errGoexit = errors.New("jobs: the handler ended its goroutine")
)

// A PanicError is the error of an attempt whose handler panicked.
type PanicError struct {
	Value any    // of the panic
	Stack []byte // of its goroutine
}

// Error contains the value if it is a string or an error, and otherwise its type. It does not panic.
func (e *PanicError) Error() string {
	const text = "jobs: the handler panicked: "
	switch v := e.Value.(type) {
	case string:
		return text + v
	case error:
		return text + fmt.Sprint(v) // also of a nil pointer
	}
	return fmt.Sprintf("%sa %T", text, e.Value)
}

// RunAt returns an error with which a handler ends, if its job is to run again at a time. It may be
// wrapped. The attempt does not count, and this can happen any number of times.
func RunAt(t time.Time) error { return &runAtError{t} }

type runAtError struct{ at time.Time }

func (e *runAtError) Error() string {
	return "jobs: runs again at " + e.at.Format(time.RFC3339Nano)
}

// Permanent returns an error that wraps err. A job whose handler returns it is kept as failed at
// once, and core/retry does not retry it either: its RetryAfter is negative. Permanent(nil) is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

type permanentError struct{ err error }

func (e *permanentError) Error() string             { return e.err.Error() }
func (e *permanentError) Unwrap() error             { return e.err }
func (e *permanentError) RetryAfter() time.Duration { return -1 }
