package core

import (
	"errors"
	"fmt"
	"reflect"
	"time"
)

var (
	// ErrConfig is matched by a [*ConfigError].
	ErrConfig = errors.New("invalid config")
	// ErrRejected is matched by every error of a mechanism that did not make the call: an open breaker, a limit, a full queue.
	// Nothing was sent.
	ErrRejected = errors.New("rejected")
	// ErrClosed is the error of a call of a limiter, bulkhead or other mechanism that was closed. It matches ErrRejected; its RetryAfter is
	// negative.
	ErrClosed error = closedError{}
)

// A ConfigError is the error of one field that cannot be used. Validate returns one for each such field, joined.
type ConfigError struct {
	Field  string // as in "retry.Config.MaxAttempts"
	Value  any    // as given
	Reason string // what is accepted, as in "must be >= 0 (0 means 3)"
}

// Error names the field, the value and the reason. For a Value that is not a number, a bool or a string, it names only the type, since
// another goroutine may be writing to what the Value refers to.
func (e *ConfigError) Error() string {
	return fmt.Sprintf("%s = %s: %s", e.Field, plain(e.Value), e.Reason)
}

// plain returns the text of v if that is a number, a bool or a string, or its type.
func plain(v any) string {
	switch k := reflect.ValueOf(v).Kind(); {
	case k == reflect.Invalid, k >= reflect.Bool && k <= reflect.Complex128, k == reflect.String:
		if v == "" {
			return `""`
		}
		return fmt.Sprint(v)
	}
	return fmt.Sprintf("%T", v)
}

// Is matches ErrConfig.
func (e *ConfigError) Is(target error) bool { return target == ErrConfig }

type closedError struct{}

func (closedError) Error() string             { return "closed" }
func (closedError) Is(target error) bool      { return target == ErrRejected }
func (closedError) RetryAfter() time.Duration { return -1 }

// RetryAfter returns the longest wait that an error in the tree of err asks for before the call is made again, or false if none asks for
// one. Such an error has a method RetryAfter() time.Duration; a negative result of that method means that waiting does not help.
func RetryAfter(err error) (time.Duration, bool) {
	longest, found := time.Duration(0), false
	for err != nil {
		if r, ok := err.(interface{ RetryAfter() time.Duration }); ok {
			if d := r.RetryAfter(); d >= 0 {
				longest, found = max(longest, d), true
			}
		}
		switch u := err.(type) { //nolint:errorlint // this is the walk of the tree itself
		case interface{ Unwrap() error }:
			err = u.Unwrap()
		case interface{ Unwrap() []error }:
			for _, e := range u.Unwrap() {
				if d, ok := RetryAfter(e); ok {
					longest, found = max(longest, d), true
				}
			}
			return longest, found
		default:
			return longest, found
		}
	}
	return longest, found
}

// Permanent returns an error that wraps err. No retry of this module repeats a call with such an error. Permanent(nil)
// is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

type permanentError struct{ error }

func (e *permanentError) Unwrap() error { return e.error }

// Permanent is for internal/blame.
func (e *permanentError) Permanent() bool { return true }

// RetryAfter says that waiting does not help.
func (e *permanentError) RetryAfter() time.Duration { return -1 }

// Must returns v, and panics if err is not nil. It is for main and for tests.
func Must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
