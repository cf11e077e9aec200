package batch

import (
	"errors"
	"fmt"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/closed"
)

var (
	// ErrFull is the error of a record beyond MaxPending. It matches [core.ErrRejected].
	ErrFull = fmt.Errorf("batch: too many records are pending: %w", core.ErrRejected)
	// ErrGroups is the error of a record whose option would be a group beyond MaxGroups. It
	// matches [core.ErrRejected].
	ErrGroups = fmt.Errorf("batch: too many groups: %w", core.ErrRejected)
	// ErrLeaseLost is the error of a store for a batch that no longer exists, or that has been
	// leased again.
	ErrLeaseLost = errors.New("batch: lease lost")
	// ErrDeleted is the error of a Call whose record was deleted.
	ErrDeleted = errors.New("batch: record was deleted")
	// ErrStore is matched by the error of an operation that the store could not execute. It wraps
	// that of the store.
	ErrStore = errors.New("batch: store failed")
	// ErrClosed is the error of an operation after Close, and of a Call that Close ended. It
	// matches [core.ErrRejected], and waiting does not help.
	ErrClosed error = &closed.Error{Text: "batch: closed"}
)
