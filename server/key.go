package server

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/gresil/gresil/core"
)

// A Key returns the key of a request, such as its client, or false for a request that has none. It must not read the body.
type Key = func(r *http.Request) (key string, ok bool)

// ClientIP is a [Key]: the IP address of the peer. It reads no header, so a client cannot choose it. Behind proxies, use the method of
// [Proxies] with the same name. A request over a unix socket has no key. An IPv6 address is shortened to its first 64 bits, as in
// 2001:db8::/64, with these exceptions:
//   - An address that contains the IPv4 address of the client counts as that one. These are addresses in ::ffff:0:0/96, ::ffff:0:0:0/96,
//     64:ff9b::/96 (NAT64) and ::/96, and those in 2002::/16 (6to4) and 2001::/32 (Teredo) whose IPv4 address is global.
//   - A link-local address (fe80::/10), without its zone, and an address in 64:ff9b:1::/48, whose form an operator chooses, is not
//     shortened.
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

// Pattern is a [Key]: the pattern that the request was routed by (r.Pattern). There is none before routing, as in Use of chi's root router.
func Pattern(r *http.Request) (key string, ok bool) { return r.Pattern, r.Pattern != "" }

// Header returns a [Key]: the first value of a header field, if it is not empty, as in Header("X-API-Key"). The client chooses the value:
// check it further out, otherwise a client has a new limit with each new value. Header panics if no request can have the field: if name is
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

// notToken reports whether a rune cannot be part of a token (RFC 9110, section 5.6.2), such as the name of a field.
func notToken(c rune) bool {
	letter, digit := 'a' <= c|0x20 && c|0x20 <= 'z', '0' <= c && c <= '9'
	return !letter && !digit && !strings.ContainsRune("!#$%&'*+-.^_`|~", c)
}

// FirstOf returns a [Key]: the first of several keys that a request has, as in FirstOf(Header("X-API-Key"), ClientIP).
// The result begins with the index of that key, so the same value of different keys is not the same key.
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

// AllOf returns a [Key] that combines several keys, as in AllOf(ClientIP, Pattern). A request that lacks one of them has none. Different
// values never result in the same key.
func AllOf(keys ...Key) Key {
	keys = slices.Clone(keys)
	return func(r *http.Request) (string, bool) {
		all := make([]byte, 0, 64)
		for _, key := range keys {
			k, ok := key(r)
			if !ok {
				return "", false
			}
			// The length comes first, so that one value cannot look like two.
			all = append(append(strconv.AppendInt(all, int64(len(k)), 10), ':'), k...)
		}
		return string(all), len(keys) > 0
	}
}
