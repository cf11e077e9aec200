package server

import (
	"net/http"
	"slices"
	"strconv"
)

// Keys is several keys as one, as in Keys(ByClientIP(), ByRoute()). Two requests
// have the same key only if they have each part in common: every part is
// preceded by its length, so no value can pretend to be two. A request that lacks
// a part has no key, and Keys() is no key for any.
func Keys(parts ...Key) Key {
	parts = slices.Clone(parts)
	if bad := firstUnusable(parts); bad != nil {
		return bad
	}
	return func(dst []byte, r *http.Request) ([]byte, bool) {
		start := len(dst)
		for _, part := range parts {
			var ok bool
			before := len(dst)
			if dst, ok = part(dst, r); !ok {
				return dst[:start], false
			}
			dst = prependLength(dst, before)
		}
		return dst, len(parts) > 0
	}
}

// prependLength puts the length of dst[start:] before it, as in "3:abc". It is
// appended and moved, which needs no buffer on the heap.
func prependLength(dst []byte, start int) []byte {
	end := len(dst)
	dst = append(strconv.AppendInt(dst, int64(end-start), 10), ':')
	var length [20]byte
	n := copy(length[:], dst[end:])
	copy(dst[start+n:], dst[start:end])
	copy(dst[start:], length[:n])
	return dst
}

// FirstOf is the first of several keys that a request has, as in
// FirstOf(ByHeader("X-API-Key"), ByClientIP()). The key says which one it is, so
// an API key that reads like an IP is not that IP.
func FirstOf(choices ...Key) Key {
	choices = slices.Clone(choices)
	if bad := firstUnusable(choices); bad != nil {
		return bad
	}
	return func(dst []byte, r *http.Request) ([]byte, bool) {
		start := len(dst)
		for i, choice := range choices {
			dst = append(strconv.AppendInt(dst[:start], int64(i), 10), ':')
			var ok bool
			if dst, ok = choice(dst, r); ok {
				return dst, true
			}
		}
		return dst[:start], false
	}
}
