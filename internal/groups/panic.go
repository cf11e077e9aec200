package groups

import (
	"fmt"
	"runtime/debug"
)

// A PanicError is the error of an attempt in which a function of the user has panicked.
type PanicError struct {
	Stack string // for the log

	what  string
	value any
}

// Panicked returns the error for the value of recover. What is the text before it.
func Panicked(what string, value any) *PanicError {
	return &PanicError{Stack: string(debug.Stack()), what: what, value: value}
}

// Error contains the value if it is a string or an error, and otherwise its type.
func (e *PanicError) Error() string {
	switch v := e.value.(type) {
	case string:
		return e.what + ": " + v
	case error:
		return e.what + ": " + v.Error()
	}
	return fmt.Sprintf("%s: a %T", e.what, e.value)
}

func (e *PanicError) Unwrap() error {
	err, _ := e.value.(error)
	return err
}
