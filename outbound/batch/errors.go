package batch

import (
	"errors"
	"fmt"

	"github.com/gresil/gresil/core"
)

var (
	// ErrFull is the error of a record beyond MaxPending. It matches core.ErrRejected.
	ErrFull = fmt.Errorf("batch: too many records are pending: %w", core.ErrRejected)
	// ErrNotFound is the error for a record that was deleted, or whose result is no longer kept.
	ErrNotFound = errors.New("batch: no such record")
	// ErrClosed is the error of an operation after Close. It matches core.ErrRejected.
	ErrClosed = fmt.Errorf("batch: %w", core.ErrClosed)

	errRunning = errors.New("batch: Run is running already")
)
