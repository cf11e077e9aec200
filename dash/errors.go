package dash

import (
	"errors"
	"fmt"
	"time"
)

var (
	errUnread  = errors.New("the reading did not return")
	errUnknown = errors.New("there is no such target")
	errVerb    = errors.New("this control does not exist for the target")
)

// A controlError is the error of a control with its status.
type controlError struct {
	status int
	text   string
}

func (e *controlError) Error() string { return e.text }

// A panicError is the error of an instance whose reading panicked.
type panicError struct{ value any }

func (e *panicError) Error() string {
	switch v := e.value.(type) {
	case error:
		return "panic: " + v.Error()
	case string:
		return "panic: " + v
	}
	return fmt.Sprintf("panic: a %T", e.value)
}

// A slowError is the error of an instance that could not be read in time.
type slowError struct{ timeout time.Duration }

func (e *slowError) Error() string { return fmt.Sprintf("no answer within %v", e.timeout) }
