package server

import (
	"fmt"
	"net/http"
	"net/netip"
	"sync"
)

// KeyIn returns a function that reports whether the key of a request is one of values,
// letter by letter, for allow lists and block lists, as in KeyIn(ByHeader("X-API-Key"), "k1",
// "k2"). It is false for a request that has no key. Without values it is false for
// all, as it is with a key that [Key.Validate] reports. It may be called concurrently.
//
// Values are written as the key has them: ByClientIP has 192.0.2.1 and
// 2001:db8::/64, and is better compared by [ClientIP.In]; [Keys] and [FirstOf] add
// marks, so ask for their parts. It costs no allocation, unless the key does or is
// longer than 256 bytes.
func KeyIn(key Key, values ...string) func(*http.Request) bool {
	set := make(map[string]struct{}, len(values))
	for _, v := range values {
		set[v] = struct{}{}
	}
	buffers := sync.Pool{New: func() any { return new([256]byte) }}
	return func(r *http.Request) bool {
		buf := buffers.Get().(*[256]byte)
		k, ok := key(buf[:0], r)
		if ok {
			_, ok = set[string(k)]
		}
		buffers.Put(buf)
		return ok
	}
}

// In returns a function that reports whether the address of the client of a request, all
// of it and not only the bits of a key, is in one of networks, for allow lists and block
// lists. An IPv6 address with an IPv4 address in it is in the networks of both: see
// [ClientIP]. It is false for a request for which there is no
// address. Without networks it is false for all. The function may be called
// concurrently, and allocates nothing; it looks at one network after the other.
//
// The error reports every field of c and every network that cannot be used.
func (c ClientIP) In(networks ...netip.Prefix) (func(*http.Request) bool, error) {
	check := c.check()
	for i, p := range networks {
		check.That(p.IsValid(), fmt.Sprintf("In[%d]", i), p.String(), needsNetwork)
	}
	if err := check.Err(); err != nil {
		return nil, err
	}
	f, networks := c.finder(), fold(networks)
	return func(r *http.Request) bool {
		client, ok := f.client(r)
		return ok && within(client, networks)
	}, nil
}
