package ratelimit

import (
	"net/http"
	"slices"
	"strconv"
	"unsafe"

	"github.com/gresil/gresil/internal/peer"
	"github.com/gresil/gresil/server"
)

// Keys that the Key of the config did not find begin with "#", and so does one
// that it did find if it begins with "#" itself: no two of them are ever the same.
const (
	markPlain = "#key:"
	markIP    = "#ip:"
	markPeer  = "#peer:"
	markRoute = "#route:"
	markLayer = "#layer:"
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

// keyOf returns the key of r, written to dst. It is false for a request without a key that
// needs one.
func (s *settings) keyOf(dst []byte, u *rule, r *http.Request) (string, bool) {
	dst = append(dst, u.mark...)
	start := len(dst)
	dst, ok := s.key(dst, r)
	switch {
	case ok:
		dst = escape(dst, start)
	case s.cfg.KeyRequired:
		return "", false
	default:
		dst = substitute(dst[:start], r)
	}
	return unsafe.String(unsafe.SliceData(dst), len(dst)), true
}

// byPeer is the key of requests without one.
var byPeer = server.ByClientIP() //nolint:gochecknoglobals // a constant

// substitute appends the key of a request without one: its client IP or, where there is none,
// RemoteAddr.
func substitute(dst []byte, r *http.Request) []byte {
	start := len(dst)
	dst, ok := byPeer(append(dst, markIP...), r)
	if !ok {
		dst = append(append(dst[:start], markPeer...), r.RemoteAddr...)
	}
	return dst
}

// escape marks a key that looks like a mark itself. It begins at start.
func escape(dst []byte, start int) []byte {
	if len(dst) > start && dst[start] == markPlain[0] {
		dst = slices.Insert(dst, start, []byte(markPlain)...)
	}
	return dst
}
