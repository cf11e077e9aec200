package batch

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/blame"
	"github.com/gresil/gresil/internal/closed"
)

var (
	// ErrFull is the error of a record beyond MaxPending. It matches [core.ErrRejected].
	ErrFull = fmt.Errorf("batch: too many records are pending: %w", core.ErrRejected)
	// ErrGroups is the error of a record whose option would be a group beyond MaxGroups. It
	// matches [core.ErrRejected].
	ErrGroups = fmt.Errorf("batch: too many groups: %w", core.ErrRejected)
	// ErrLeaseLost is the error of a store for a batch that is not leased, or that has been leased
	// again.
	ErrLeaseLost = errors.New("batch: lease lost")
	// ErrDeleted is the error of a Call whose record was deleted.
	ErrDeleted = errors.New("batch: record was deleted")
	// ErrStore is matched by the error of an operation that the store did not execute, or of which
	// it is not known. The error wraps that of the store.
	ErrStore = errors.New("batch: store failed")
	// ErrRunning is the error of a second Run at the same time.
	ErrRunning = errors.New("batch: Run is running")
	// ErrClosed is the error of an operation after Close or Drain, and of a Call that Close ended. It
	// matches [core.ErrRejected], and waiting does not help.
	ErrClosed error = &closed.Error{Text: "batch: closed"}
)

// Permanent marks an error of Send, or of a [Result], as one that repeating does not help. It
// returns nil for nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }

func permanent(err error) bool {
	var p *permanentError
	return errors.As(err, &p) || blame.Permanent(err)
}

// A panicError is the error of a function of the user that panicked.
type panicError struct{ who, text, stack string }

func (e *panicError) Error() string {
	return "batch: " + e.who + " panicked: " + e.text + "\n" + e.stack
}

// guard calls a function, and returns a panic as an error.
func guard(who string, f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &panicError{who: who, text: panicText(r), stack: string(debug.Stack())}
		}
	}()
	return f()
}

// panicText describes the value of a panic.
func panicText(v any) (text string) {
	text = fmt.Sprintf("a value of type %T", v)
	defer func() { _ = recover() }() // of Error
	switch v := v.(type) {
	case error:
		text = v.Error()
	case string:
		text = v
	}
	return text
}

// usable returns an error of Send, or another one if a method of it panics, as those of a nil pointer do.
func usable(err error) error {
	failed := guard("an error of Send", func() error {
		_, _ = core.RetryAfter(err)
		_, _ = permanent(err), err.Error()
		return nil
	})
	if failed != nil {
		return failed
	}
	return err
}

// textOf returns the first line of the text of an error, which is not empty, and not too long to be
// kept and shown.
func textOf(err error) string {
	text, _, _ := strings.Cut(err.Error(), "\n")
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + " ..."
	}
	if text == "" {
		return "batch: an error without a text"
	}
	return text
}

const maxText = 4000

// A remoteError is the text of the error of a record that was sent by way of a store.
type remoteError string

func (e remoteError) Error() string { return string(e) }

// A storeError is an error of the store.
type storeError struct{ err error }

func (e *storeError) Error() string   { return "batch: store failed: " + e.err.Error() }
func (e *storeError) Unwrap() []error { return []error{ErrStore, e.err} }

// A timeoutError is the error of a call that took longer than Timeout.
type timeoutError struct {
	after     time.Duration
	abandoned bool
}

func (e *timeoutError) Error() string {
	if e.abandoned {
		return fmt.Sprintf("batch: Send has not returned %v after its Timeout, %v", grace, e.after)
	}
	return fmt.Sprintf("batch: the call took longer than its Timeout, %v", e.after)
}

func (e *timeoutError) Timeout() bool { return true }
