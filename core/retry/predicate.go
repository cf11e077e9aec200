package retry

import "slices"

// Any returns a predicate that holds where one of predicates does, which are
// asked in order until then: for RetryIf and RetryResult. One that is nil is left
// out; where none is left, it never holds.
func Any[V any](predicates ...func(V) bool) func(V) bool {
	predicates = given(predicates)
	return func(v V) bool {
		return slices.ContainsFunc(predicates, func(holds func(V) bool) bool { return holds(v) })
	}
}

// All returns a predicate that holds where all of predicates do, which are asked
// in order until one does not. One that is nil is left out; where none is left,
// it always holds.
func All[V any](predicates ...func(V) bool) func(V) bool {
	predicates = given(predicates)
	return func(v V) bool {
		return !slices.ContainsFunc(predicates, func(holds func(V) bool) bool { return !holds(v) })
	}
}

func given[V any](predicates []func(V) bool) []func(V) bool {
	return slices.DeleteFunc(slices.Clone(predicates), func(f func(V) bool) bool { return f == nil })
}

// MapError makes a Config.Map that hands the error of a call that failed to f, and
// the caller gets the one that f returns: nil takes it away. The result, and a
// call that succeeded, stay as they are. A nil f changes nothing.
func MapError(f func(error) error) func(result any, err error) (any, error) {
	return func(result any, err error) (any, error) {
		if err != nil && f != nil {
			err = f(err)
		}
		return result, err
	}
}
