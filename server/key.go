package server

import "net/http"

// A Key appends to dst what requests of one kind have in common, as the bytes by
// which a limiter tells one caller from another, and returns the longer dst. It
// is false, and dst as it was, for a request that has no such key; what happens
// then is for the plugin to say, or for [FirstOf]. A Key is safe for concurrent
// use, does not change the request and never reads its body.
type Key func(dst []byte, r *http.Request) ([]byte, bool)

// ByHeader is the first value of a header field, as in
// ByHeader("X-API-Key"). A request without it, or where it is empty, has no key.
//
// The client chooses the value: a limiter that is keyed by it has to stand
// further in than what checks it, else a new value is a new bucket.
func ByHeader(name string) Key {
	name = http.CanonicalHeaderKey(name)
	return func(dst []byte, r *http.Request) ([]byte, bool) {
		values := r.Header[name]
		if len(values) == 0 || values[0] == "" {
			return dst, false
		}
		return append(dst, values[0]...), true
	}
}

// ByUser is the user name of Basic authentication. A request without one has no
// key. The password is not looked at: what checks it has to stand further out.
// Where the user is known from a session or a token, use [ByFunc].
func ByUser() Key {
	return ByFunc(func(r *http.Request) string {
		user, _, _ := r.BasicAuth()
		return user
	})
}

// ByRoute is the pattern that the request was routed by: r.Pattern, which both
// [http.ServeMux] and chi set, as in "GET /users/{id}" and "/users/{id}" (chi's
// has no method). The path itself is never a key, since a client can write one
// route in many ways.
//
// There is no key before routing. A middleware in the root Use of chi, or around
// a ServeMux, runs before it; one in chi's With or Group runs after it, and one in
// the Use of a mounted router sees the pattern of the mount, as in "/api/*".
func ByRoute() Key {
	return ByFunc(func(r *http.Request) string { return r.Pattern })
}

// ByFunc is what f returns; a request for which that is empty has no key.
func ByFunc(f func(*http.Request) string) Key {
	return func(dst []byte, r *http.Request) ([]byte, bool) {
		s := f(r)
		return append(dst, s...), s != ""
	}
}
