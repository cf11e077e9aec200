package retry

import "slices"

// Any returns a predicate that holds if one of predicates does: for RetryIf and
// RetryResult. They are called in order until one holds. A nil predicate is left out;
// without any, it never holds.
func Any[V any](predicates ...func(V) bool) func(V) bool {
	predicates = given(predicates)
	return func(v V) bool {
		return slices.ContainsFunc(predicates, func(holds func(V) bool) bool { return holds(v) })
	}
}

// All returns a predicate that holds if all of predicates do. They are called in order
// until one does not hold. A nil predicate is left out; without any, it always holds.
func All[V any](predicates ...func(V) bool) func(V) bool {
	predicates = given(predicates)
	return func(v V) bool {
		return !slices.ContainsFunc(predicates, func(holds func(V) bool) bool { return !holds(v) })
	}
}

func given[V any](predicates []func(V) bool) []func(V) bool {
	return slices.DeleteFunc(slices.Clone(predicates), func(f func(V) bool) bool { return f == nil })
}

// MapError returns a Config.Map that replaces the error of a failed call by f(err), which
// may be nil. The result, and a call that succeeded, stay as they are. A nil f changes
// nothing.
func MapError(f func(error) error) func(result any, err error) (any, error) {
	return func(result any, err error) (any, error) {
		if err != nil && f != nil {
			err = f(err)
		}
		return result, err
	}
}
