// Package identity compares the instances that interfaces hold.
package identity

import "reflect"

// Missing reports whether v is nil, or a nil pointer, as a constructor returns it
// together with an error.
func Missing(v any) bool {
	r := reflect.ValueOf(v)
	return !r.IsValid() || r.Kind() == reflect.Pointer && r.IsNil()
}

// Same reports whether a and b are pointers to one variable. It returns false for
// values, and for pointers to types without a size, which Go may make equal: such types
// have no state to share.
func Same(a, b any) bool {
	v, w := reflect.ValueOf(a), reflect.ValueOf(b)
	return v.Kind() == reflect.Pointer && w.Kind() == reflect.Pointer && v.Type() == w.Type() &&
		v.Pointer() == w.Pointer() && v.Type().Elem().Size() > 0
}

// Comparable reports whether v == v does not panic.
func Comparable(v any) bool { return reflect.ValueOf(v).Comparable() }
