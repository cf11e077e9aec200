package ratelimit

import (
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"unsafe"

	"github.com/gresil/gresil/server"
)

// A Key tells whose permits a request takes. These are the keys of package
// server, which has more to say about them.
type Key = server.Key

// ByClientIP is the IP of RemoteAddr, IPv6 by /64; where that is in one of the
// trusted networks, what X-Forwarded-For says. See [server.ByClientIP], and
// [server.ClientIP] for other headers and networks.
func ByClientIP(trusted ...netip.Prefix) Key { return server.ByClientIP(trusted...) }

// ByHeader is the first value of a header field. See [server.ByHeader].
func ByHeader(name string) Key { return server.ByHeader(name) }

// ByUser is the user name of Basic authentication. See [server.ByUser].
func ByUser() Key { return server.ByUser() }

// ByRoute is the pattern that the request was routed by. See [server.ByRoute]; in
// the root Use of chi there is none yet.
func ByRoute() Key { return server.ByRoute() }

// ByFunc is what f returns, if not empty. See [server.ByFunc].
func ByFunc(f func(*http.Request) string) Key { return server.ByFunc(f) }

// Keys is several keys as one. See [server.Keys].
func Keys(parts ...Key) Key { return server.Keys(parts...) }

// FirstOf is the first of several keys that a request has. See [server.FirstOf].
func FirstOf(choices ...Key) Key { return server.FirstOf(choices...) }

// Keys that the Key of the config did not find begin with "#", and so does one
// that it did find if it begins with "#" itself: no two of them are ever the same.
const (
	markPlain = "#key:"
	markIP    = "#ip:"
	markRoute = "#route:"
)

// routeMark goes before the keys of a route. It has the length of the pattern, so
// that the pattern cannot run into the key.
func routeMark(pattern string) string {
	return markRoute + strconv.Itoa(len(pattern)) + ":" + pattern + ":"
}

// keyOf returns the key of r, written to dst.
func (s *Server) keyOf(dst []byte, u *rule, r *http.Request) string {
	dst = append(dst, u.mark...)
	start := len(dst)
	dst, ok := s.key(dst, r)
	switch {
	case !ok:
		dst, _ = s.ip(append(dst[:start], markIP...), r)
	case len(dst) > start && dst[start] == markPlain[0]:
		dst = slices.Insert(dst, start, []byte(markPlain)...)
	}
	return unsafe.String(unsafe.SliceData(dst), len(dst))
}
