package server

import (
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/header"
)

// A Key appends the key of a request to dst, as the bytes that identify a client to a
// limiter, and returns the longer dst. It returns false, and dst unchanged, for a request
// without such a key; the plugin, or [FirstOf], then decides. A Key is safe for
// concurrent use, does not change the request and never reads its body.
type Key func(dst []byte, r *http.Request) ([]byte, bool)

// Validate reports a key that no request can have: that of [ByHeader] for a name that
// cannot be in the header, also as a part of [Keys] or [FirstOf]. It does not call the
// functions of a user.
func (k Key) Validate() error {
	if reflect.ValueOf(k).Pointer() != reflect.ValueOf(unusable(nil)).Pointer() {
		return nil
	}
	name, _ := k(nil, nil)
	return &core.ConfigError{Field: "server.ByHeader", Value: strconv.Quote(string(name)), Reason: "must be the name of a header field other than Host, as X-API-Key"}
}

// unusable is a key that no request has. Validate knows it by its code, which is therefore
// never inlined, and finds the name by a call without a request.
//
//go:noinline
func unusable(name []byte) Key {
	return func(dst []byte, r *http.Request) ([]byte, bool) {
		if r == nil {
			return append(dst, name...), false
		}
		return dst, false
	}
}

// firstUnusable returns one of keys that no request can have, or nil.
func firstUnusable(keys []Key) Key {
	for _, k := range keys {
		if k.Validate() != nil {
			return k
		}
	}
	return nil
}

// ByHeader is the first value of a header field, as in
// ByHeader("X-API-Key"). A request without it, or with an empty value, has no key. A
// name that cannot be in the header is reported by [Key.Validate], which the plugins
// call: an empty one, one with a space, or Host, which net/http keeps in Request.Host.
//
// The client chooses the value: place the middleware that checks it outside of the
// limiter. Otherwise each new value is a new bucket.
func ByHeader(name string) Key {
	if !header.IsToken(name) || strings.EqualFold(name, "Host") {
		return unusable([]byte(name))
	}
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
// key. The password is not checked: place the middleware that checks it outside of
// the limiter. If a session or a token has the user, use [ByFunc].
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
