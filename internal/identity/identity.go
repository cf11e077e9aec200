// Package identity tells which instance an interface holds.
package identity

import "reflect"

// Missing tells whether v is nil, or a nil pointer, as a constructor returns it
// together with an error.
func Missing(v any) bool {
	r := reflect.ValueOf(v)
	return !r.IsValid() || r.Kind() == reflect.Pointer && r.IsNil()
}

// Same tells whether a and b are pointers to one variable. It is never true of
// values, and of pointers to what has no size, which Go may make equal: they have
// no state that could be shared.
func Same(a, b any) bool {
	v, w := reflect.ValueOf(a), reflect.ValueOf(b)
	return v.Kind() == reflect.Pointer && w.Kind() == reflect.Pointer && v.Type() == w.Type() &&
		v.Pointer() == w.Pointer() && v.Type().Elem().Size() > 0
}

// Comparable tells whether v == v does not panic.
func Comparable(v any) bool { return reflect.ValueOf(v).Comparable() }
