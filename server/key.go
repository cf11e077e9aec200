package server

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/gresil/gresil/core"
)

// A Key returns the key of a request, such as its client, and false for a request that has none. It does not read the body.
type Key = func(r *http.Request) (key string, ok bool)

// ClientIP is a [Key]: the IP address of the peer. It reads no header, so a client cannot choose it. Behind proxies use the method
// of [Proxies]. A request over a unix socket has no address. An IPv6 address is shortened to its first 64 bits, as in
// 2001:db8::/64, with these exceptions:
//   - An address that has the IPv4 address of the client in it counts as that: in ::ffff:0:0/96, ::ffff:0:0:0/96, 64:ff9b::/96
//     (NAT64) and ::/96, and the global ones in 2002::/16 (6to4) and 2001::/32 (Teredo).
//   - A link-local address (fe80::/10), without its zone, and one of 64:ff9b:1::/48, where an operator chooses the form, is the
//     key as a whole.
func ClientIP(r *http.Request) (key string, ok bool) {
	if ip, ok := ipv4(r.RemoteAddr); ok {
		return ip, true // a part of RemoteAddr
	}
	return Proxies{}.ClientIP(r)
}

// User is a [Key]: the user name of Basic authentication. The password is not checked.
func User(r *http.Request) (key string, ok bool) {
	user, _, _ := r.BasicAuth()
	return user, user != ""
}

// Pattern is a [Key]: the pattern that the request was routed by (r.Pattern). It has none before routing, as in Use of a root
// router of chi.
func Pattern(r *http.Request) (key string, ok bool) { return r.Pattern, r.Pattern != "" }

// Header returns a [Key]: the first value of a header field, if it is not empty, as in Header("X-API-Key"). The client chooses
// it: check it further out, or else each new value has a limit of its own. It panics if no request can have the field: if name is
// not the name of a field, or is Host, which net/http keeps in Request.Host.
func Header(name string) Key {
	name = http.CanonicalHeaderKey(name)
	if strings.ContainsFunc(name, notToken) || name == "" || name == "Host" {
		panic(&core.ConfigError{
			Field: "server.Header", Value: strconv.Quote(name),
			Reason: "must be the name of a header field other than Host, as X-API-Key",
		})
	}
	return func(r *http.Request) (string, bool) {
		values := r.Header[name]
		if len(values) == 0 {
			return "", false
		}
		return values[0], values[0] != ""
	}
}

// notToken reports whether a rune cannot be part of a token (RFC 9110, section 5.6.2), as the name of a field is.
func notToken(c rune) bool {
	letter, digit := 'a' <= c|0x20 && c|0x20 <= 'z', '0' <= c && c <= '9'
	return !letter && !digit && !strings.ContainsRune("!#$%&'*+-.^_`|~", c)
}

// FirstOf returns the first of several keys that a request has, as in FirstOf(Header("X-API-Key"), ClientIP). Values of
// different keys are never the same.
func FirstOf(keys ...Key) Key {
	keys = slices.Clone(keys)
	return func(r *http.Request) (string, bool) {
		for i, key := range keys {
			if k, ok := key(r); ok {
				return strconv.Itoa(i) + ":" + k, true
			}
		}
		return "", false
	}
}

// AllOf returns several keys as one, as in AllOf(ClientIP, Pattern). A request that lacks one of them has none. Different values
// never become the same.
func AllOf(keys ...Key) Key {
	keys = slices.Clone(keys)
	return func(r *http.Request) (string, bool) {
		all := make([]byte, 0, 64)
		for _, key := range keys {
			k, ok := key(r)
			if !ok {
				return "", false
			}
			// The length goes first, so that no value can look like two.
			all = append(append(strconv.AppendInt(all, int64(len(k)), 10), ':'), k...)
		}
		return string(all), len(keys) > 0
	}
}
