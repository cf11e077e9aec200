package groups

import (
	"fmt"
	"runtime/debug"
)

// A PanicError is the error of an attempt in which a function of the user has panicked.
type PanicError struct {
	error // with what it wraps, if the value of the panic is an error

	Stack string // for the log
}

// Panicked returns the error for the value of recover. What is the text before it. The value is shown if it is a string or an error, and
// otherwise its type.
func Panicked(what string, value any) *PanicError {
	var err error
	switch v := value.(type) {
	case string:
		err = fmt.Errorf("%s: %s", what, v)
	case error:
		err = fmt.Errorf("%s: %w", what, v)
	default:
		err = fmt.Errorf("%s: a %T", what, v)
	}
	return &PanicError{err, string(debug.Stack())}
}

// Unwrap returns the error with the text.
func (e *PanicError) Unwrap() error { return e.error }
