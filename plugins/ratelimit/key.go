package ratelimit

import (
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"unsafe"

	"github.com/gresil/gresil/internal/peer"
	"github.com/gresil/gresil/server"
)

// A Key is the key whose permits a request takes. The keys are those of package server,
// which documents them.
type Key = server.Key

// ByClientIP is the IP of RemoteAddr, IPv6 by /64; where that is in one of the
// trusted networks, that of X-Forwarded-For. See [server.ByClientIP], and
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
	markPlain  = "#key:"
	markIP     = "#ip:"
	markPeer   = "#peer:"
	markShared = "#shared"
	markRoute  = "#route:"
	markLayer  = "#layer:"
)

// marked goes before the keys of a route or a layer. It has the length of the
// name, so that the name cannot run into the key.
func marked(mark, name string) string {
	return mark + strconv.Itoa(len(name)) + ":" + name + ":"
}

// plainKey returns the key of r if that is the IP of an IPv4 peer: a part of RemoteAddr, so
// that a refused request needs no exchange. It returns false for all other keys.
func (s *settings) plainKey(u *rule, r *http.Request) (string, bool) {
	if s.cfg.Key != nil || u.mark != "" {
		return "", false
	}
	return peer.IPv4(r.RemoteAddr)
}

// keyOf returns the key of r, written to dst. It is false where there is none, and
// NoKey is NoKeyDeny.
func (s *settings) keyOf(dst []byte, u *rule, r *http.Request) (string, bool) {
	dst = append(dst, u.mark...)
	start := len(dst)
	dst, ok := s.key(dst, r)
	if ok {
		dst = escape(dst, start)
	} else if dst, ok = s.standIn(dst[:start], r); !ok {
		return "", false
	}
	return unsafe.String(unsafe.SliceData(dst), len(dst)), true
}

// byPeer is the key of requests without one.
var byPeer = server.ByClientIP() //nolint:gochecknoglobals // a constant

// standIn appends the substitute for a key that a request does not have.
func (s *settings) standIn(dst []byte, r *http.Request) ([]byte, bool) {
	start := len(dst)
	if s.cfg.NoKey == NoKeyShared {
		return append(dst, markShared...), true
	}
	if s.cfg.NoKey == NoKeyDeny {
		return dst, false
	}
	dst, ok := byPeer(append(dst, markIP...), r)
	if !ok {
		dst = append(append(dst[:start], markPeer...), r.RemoteAddr...)
	}
	return dst, true
}

// escape marks a key that looks like a mark itself. It begins at start.
func escape(dst []byte, start int) []byte {
	if len(dst) > start && dst[start] == markPlain[0] {
		dst = slices.Insert(dst, start, []byte(markPlain)...)
	}
	return dst
}
