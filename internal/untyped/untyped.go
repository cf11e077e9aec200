// Package untyped converts results that passed through untyped code.
package untyped

import (
	"fmt"
	"reflect"
)

// As returns result as a T, together with err. A nil result is the zero T. If result is
// no T, it returns the zero T and an error that wraps err.
func As[T any](result any, err error) (T, error) {
	v, ok := result.(T)
	if ok || result == nil {
		return v, err
	}
	return v, &typeError{fmt.Sprintf("core: a mechanism returned a %T where the operation returns a %s", result, reflect.TypeFor[T]()), err}
}

type typeError struct {
	text  string
	cause error // the error that came along, or nil
}

func (e *typeError) Error() string { return e.text }
func (e *typeError) Unwrap() error { return e.cause }
