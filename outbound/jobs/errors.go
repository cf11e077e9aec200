package jobs

import (
	"errors"
	"fmt"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/groups"
)

var (
	// ErrExists is the error of Enqueue if the ID is in use.
	ErrExists = groups.ErrExists
	// ErrNotFound is the error of an operation on a job that does not exist, or whose state does not permit the operation.
	ErrNotFound = groups.ErrNotFound
	// ErrFull is the error of Enqueue if the queue holds MaxPending jobs. It matches core.ErrRejected.
	ErrFull = groups.ErrNoRoom
	// ErrClosed is the error of an operation after Close. It matches core.ErrRejected.
	ErrClosed = fmt.Errorf("jobs: %w", core.ErrClosed)

	errRunning = errors.New("jobs: Run is running already")
)

// RunAt returns an error for a handler to return if its job is to run again at a time. It can be wrapped.
func RunAt(t time.Time) error { return &runAtError{t} }

type runAtError struct{ at time.Time }

func (e *runAtError) Error() string {
	return "jobs: runs again at " + e.at.Format(time.RFC3339Nano)
}
