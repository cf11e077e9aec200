package core

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	"github.com/gresil/gresil/internal/identity"
)

// A Mechanism runs an operation under its rules. The mechanisms of this module
// are Mechanisms, and so is whatever has these two methods.
type Mechanism interface {
	// Name is the name of the instance, for String and for messages.
	Name() string
	// Run calls next.Run as often as the mechanism wants, which may be never,
	// and returns what the caller gets.
	Run(ctx context.Context, next Next) (any, error)
}

// Next is what a [Mechanism] runs: all that is further in, and at the end the
// operation itself.
type Next struct {
	call  *call
	depth int
}

// A call is one [Do].
type call struct {
	mechanisms []Mechanism
	operation  interface {
		run(ctx context.Context) (any, error)
	}
}

// A typedCall is a call and its own operation, in one allocation.
type typedCall[T any] struct {
	call
	f func(context.Context) (T, error)
}

func (c *typedCall[T]) run(ctx context.Context) (any, error) { return c.f(ctx) }

// Run runs what is further in.
func (n Next) Run(ctx context.Context) (any, error) {
	if n.depth == len(n.call.mechanisms) {
		return n.call.operation.run(ctx)
	}
	return n.call.mechanisms[n.depth].Run(ctx, Next{n.call, n.depth + 1})
}

// A Pipeline puts mechanisms around any function: the first is the outermost.
// The zero value has none and just runs the function.
type Pipeline struct {
	mechanisms []Mechanism
}

// NewPipeline makes a pipeline. A mechanism that is nil, or a nil pointer, and a
// pointer given twice are a [*ConfigError].
func NewPipeline(mechanisms ...Mechanism) (*Pipeline, error) {
	for i, m := range mechanisms {
		if identity.Missing(m) {
			return nil, &ConfigError{Field: fmt.Sprintf("core.NewPipeline[%d]", i), Value: nil, Reason: "must be a mechanism (did its constructor fail?)"}
		}
		for _, outer := range mechanisms[:i] {
			if identity.Same(outer, m) {
				return nil, &ConfigError{Field: fmt.Sprintf("core.NewPipeline[%d]", i), Value: m.Name(), Reason: "must not be in the pipeline twice"}
			}
		}
	}
	return &Pipeline{mechanisms: append([]Mechanism(nil), mechanisms...)}, nil
}

// String lists the mechanisms from the outermost to the innermost, as in
// "*retry.Policy(api) > *breaker.Breaker(api)". It is empty for a nil p.
func (p *Pipeline) String() string {
	if p == nil {
		return ""
	}
	names := make([]string, len(p.mechanisms))
	for i, m := range p.mechanisms {
		names[i] = fmt.Sprintf("%T(%s)", m, m.Name())
	}
	return strings.Join(names, " > ")
}

// Do runs operation inside the pipeline and returns what the outermost
// mechanism returns. When that is not a T, as a mechanism of your own might do,
// the result is the zero T with a [*ResultTypeError]. A nil p is an empty one.
func Do[T any](ctx context.Context, p *Pipeline, operation func(context.Context) (T, error)) (T, error) {
	if p == nil || len(p.mechanisms) == 0 {
		return operation(ctx)
	}
	c := &typedCall[T]{f: operation, call: call{mechanisms: p.mechanisms}}
	c.operation = c
	result, err := Next{call: &c.call}.Run(ctx)
	return As[T](result, err)
}

// As returns result as a T, together with err. A nil result is the zero T. One
// that is no T is the zero T with a [*ResultTypeError] that wraps err.
func As[T any](result any, err error) (T, error) {
	v, ok := result.(T)
	if !ok && result != nil {
		return v, &ResultTypeError{Want: reflect.TypeFor[T]().String(), Got: fmt.Sprintf("%T", result), Err: err}
	}
	return v, err
}

// A ResultTypeError says that a mechanism returned something other than what
// the operation returns.
type ResultTypeError struct {
	Want, Got string // types
	Err       error  // the error that came along, or nil
}

// Error names both types.
func (e *ResultTypeError) Error() string {
	return fmt.Sprintf("core: a mechanism returned a %s where the operation returns a %s", e.Got, e.Want)
}

// Unwrap returns the error that came along.
func (e *ResultTypeError) Unwrap() error { return e.Err }
