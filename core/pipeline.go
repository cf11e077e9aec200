package core

import (
	"context"
	"fmt"
	"path"
	"reflect"
	"slices"
	"strings"

	"github.com/gresil/gresil/internal/identity"
)

// A Mechanism runs an operation under its rules. The mechanisms of this module implement it, and your own types can.
type Mechanism interface {
	// Name is used by String and Check of a pipeline.
	Name() string
	// Run calls next.Run any number of times, or not at all, and returns the result to the caller.
	Run(ctx context.Context, next Next) (any, error)
}

// Next is the inner part of a pipeline.
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

// Run runs the inner mechanisms and the operation.
func (n Next) Run(ctx context.Context) (any, error) {
	if n.depth == len(n.call.mechanisms) {
		return n.call.operation.run(ctx)
	}
	return n.call.mechanisms[n.depth].Run(ctx, Next{n.call, n.depth + 1})
}

// A Pipeline puts mechanisms around any function, the first one outermost. It is safe for concurrent use. The zero value has no mechanism.
type Pipeline struct{ mechanisms []Mechanism }

// NewPipeline makes a pipeline. If a mechanism is nil or given twice, the error is a [*ConfigError].
func NewPipeline(mechanisms ...Mechanism) (*Pipeline, error) {
	for i, m := range mechanisms {
		if identity.Missing(m) {
			return nil, &ConfigError{
				Field: fmt.Sprintf("core.NewPipeline[%d]", i), Value: nil,
				Reason: "must be a mechanism (did its constructor fail?)",
			}
		}
		for _, outer := range mechanisms[:i] {
			if identity.Same(outer, m) {
				return nil, &ConfigError{
					Field: fmt.Sprintf("core.NewPipeline[%d]", i), Value: m.Name(),
					Reason: "must not be in the pipeline twice",
				}
			}
		}
	}
	return &Pipeline{mechanisms: append([]Mechanism(nil), mechanisms...)}, nil
}

// String lists the mechanisms from the outermost to the innermost, as in "retry(api) > breaker(api)". It is empty for a nil p.
func (p *Pipeline) String() string {
	if p == nil {
		return ""
	}
	names := make([]string, len(p.mechanisms))
	for i, m := range p.mechanisms {
		names[i] = title(m)
	}
	return strings.Join(names, " > ")
}

// Check returns a line for each pair of mechanisms whose order is probably a mistake, such as a breaker outside of a retry; nil if there is
// none. The pipeline works all the same.
//
// A retry belongs outside of all mechanisms that decide about single attempts. A limiter and a bulkhead belong outside of a breaker, so
// that a call that waits neither occupies a trial nor counts as slow. A timeout inside of a retry limits each attempt, and belongs
// innermost; a timeout that is not inside of a retry can be anywhere. Mechanisms of other packages are ignored.
func (p *Pipeline) Check() (found []string) {
	if p == nil {
		return nil
	}
	kinds, places := make([]string, len(p.mechanisms)), make([]int, len(p.mechanisms))
	for i, m := range p.mechanisms {
		kinds[i] = kind(m)
		switch kinds[i] {
		case "retry":
			places[i] = 1
		case "ratelimit", "bulkhead":
			places[i] = 2
		case "breaker":
			places[i] = 3
		case "timeout":
			if slices.Contains(kinds[:i], "retry") {
				places[i] = 4
			}
		}
		for outer := range i {
			if places[i] > 0 && places[outer] > places[i] {
				found = append(found, fmt.Sprintf("core: %s is outside %s, which belongs outside of it (%s before %s)",
					title(p.mechanisms[outer]), title(m), kinds[i], kinds[outer]))
			}
		}
	}
	return found
}

func title(m Mechanism) string {
	name, _, _ := strings.Cut(strings.TrimLeft(fmt.Sprintf("%T", m), "*"), ".")
	return fmt.Sprintf("%s(%s)", name, m.Name())
}

// kind returns the name of the package of a mechanism, as in [Entry.Kind], or "" if it is not one of the packages below.
func kind(m Mechanism) string {
	t := reflect.TypeOf(m)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if dir, name := path.Split(t.PkgPath()); dir == "github.com/gresil/gresil/core/" {
		return name
	}
	return ""
}

// Do runs operation inside a pipeline; a nil p is an empty one. If the outermost mechanism is your own and returns a result that is not a
// T, the error names both types.
func Do[T any](ctx context.Context, p *Pipeline, operation func(context.Context) (T, error)) (T, error) {
	if p == nil || len(p.mechanisms) == 0 {
		return operation(ctx)
	}
	c := &typedCall[T]{f: operation, call: call{mechanisms: p.mechanisms}}
	c.operation = c
	return as[T](Next{call: &c.call}.Run(ctx))
}

// as returns result as a T, together with err. A nil result is the zero T. If result is not a T, it returns the zero T
// and an error that wraps err.
func as[T any](result any, err error) (T, error) {
	v, ok := result.(T)
	if ok || result == nil {
		return v, err
	}
	return v, &typeError{fmt.Sprintf("core: a mechanism returned a %T where the operation returns a %s", result, reflect.TypeFor[T]()), err}
}

type typeError struct {
	text  string
	cause error // the error that the mechanism returned, or nil
}

func (e *typeError) Error() string { return e.text }
func (e *typeError) Unwrap() error { return e.cause }
