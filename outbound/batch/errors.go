package batch

import (
	"errors"
	"fmt"
	"strings"

	"github.com/gresil/gresil/core"
)

var (
	// ErrFull is the error of a record beyond MaxPending. It matches core.ErrRejected.
	ErrFull = fmt.Errorf("batch: too many records are pending: %w", core.ErrRejected)
	// ErrNotFound is the error for a record that was deleted, or whose result is not known any more.
	ErrNotFound = errors.New("batch: no such record")
	// ErrClosed is the error of an operation after Close. It matches core.ErrRejected.
	ErrClosed = fmt.Errorf("batch: %w", core.ErrClosed)

	errRunning = errors.New("batch: Run is running already")
)

const maxText = 1000 // bytes of the text of an error that is kept

// A kept error is what the store keeps: the text is not too long.
type kept struct{ error }

func (e kept) Unwrap() error { return e.error }

func (e kept) Error() string {
	text := e.error.Error()
	if len(text) > maxText {
		text = text[:maxText] + " ..."
	}
	return strings.ToValidUTF8(text, "?")
}
