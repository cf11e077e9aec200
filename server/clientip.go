package server

import (
	"cmp"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/gresil/gresil/internal/header"
	"github.com/gresil/gresil/internal/peer"
	"github.com/gresil/gresil/internal/validate"
)

// ClientIP configures how the address of a client is found. The zero value uses
// RemoteAddr and reads no header, so a client cannot choose its address.
//
// Behind proxies, name the networks of the proxies. One header is read, if the peer,
// which is RemoteAddr, is in one of the networks or trusted by TrustUnix. If the header
// cannot be used, the address is that of the peer: this can limit too much, but a client
// cannot choose its address.
//
// A request has no key if there is no address: RemoteAddr has none, as that of a unix
// socket, and no header is read or can be used.
//
// An IPv6 address that has the IPv4 address of its client in it is that IPv4 address for the
// key, wherever it was found: one within IPv6 (::ffff:0:0/96), of a NAT64 (64:ff9b::/96) or
// SIIT (::ffff:0:0:0/96), IPv4-compatible (::/96, except for :: and ::1), and, if the IPv4
// address is a public one, 6to4 (2002::/16) and Teredo (2001::/32). Trusted and
// [ClientIP.In] compare both addresses, so a client of 192.0.2.0/24 is in that network, and
// also in 64:ff9b::/96, when it comes through a NAT64. Where the IPv4 address is in
// 64:ff9b:1::/48 is the choice of its operator; such an address is taken whole.
//
// All others are taken by IPv6Bits. That includes ISATAP, in which a client writes any IPv4
// address it likes, and a NAT64, SIIT or 6rd with a prefix of its own, which cannot be
// recognized. Behind a translator or in an overlay network that gives each client one
// address of a common /64, set IPv6Bits to 128.
type ClientIP struct {
	// Trusted are the networks of your own proxies. If empty, no network is
	// trusted.
	Trusted []netip.Prefix
	// TrustUnix trusts a peer that is connected by a unix socket: its RemoteAddr
	// is empty, begins with @, or is a path with a slash in it.
	TrustUnix bool
	// Header is the field that holds the address. If empty, it is
	// X-Forwarded-For. X-Forwarded-For and Forwarded (RFC 7239, of which the for=
	// is read) are lists: all lines are taken as one and read from the right, where
	// the nearest proxy wrote; addresses in Trusted are skipped, and the first that
	// is not is the client. Where all are in Trusted it is the leftmost. An element
	// without an address cannot be used and ends the search: "unknown", a name
	// ("_hidden"), no for= or two, or a malformed element.
	//
	// Any other field holds one address; the last value counts. It has to be one
	// that the proxy overwrites on every request, as CF-Connecting-IP is.
	Header string
	// Hops is how many proxies there are between the client and this server, for
	// X-Forwarded-For and Forwarded, where their addresses are not known one by
	// one: the client is the Hops-th element from the right; those to the right of
	// it are not read. Trusted then has the networks from which the last proxy
	// connects; 0.0.0.0/0 and ::/0 are any. If zero, Trusted alone identifies the
	// proxies, which is better where it is possible.
	Hops int
	// IPv4Bits and IPv6Bits are how many leading bits of an address make the key:
	// all addresses that share them are one client. If zero, IPv4Bits is 32,
	// a single address, and IPv6Bits 64, which is what one customer has at least: anyone
	// can use all addresses of a /64. IPv4Bits are those of an IPv4 address in an IPv6
	// address too.
	IPv4Bits, IPv6Bits int
}

// ByClientIP is the IP address of the client: RemoteAddr or, when RemoteAddr is
// in one of the trusted networks, that of X-Forwarded-For. It is
// ClientIP{Trusted: trusted} with the defaults: IPv6 by /64, or the IPv4 address in it. An
// invalid prefix trusts no peer.
//
// It allocates nothing. A request whose RemoteAddr has no IP, as that of a unix
// socket has none, has no key, and no header is read for it: for that there is
// [ClientIP] with TrustUnix.
func ByClientIP(trusted ...netip.Prefix) Key {
	return ClientIP{Trusted: trusted}.finder().key
}

// Key returns the key. The error reports every field that cannot be used, joined. Each is a
// [*core.ConfigError].
func (c ClientIP) Key() (Key, error) {
	if err := c.check().Err(); err != nil {
		return nil, err
	}
	return c.finder().key, nil
}

// check has every field that cannot be used.
func (c ClientIP) check() *validate.Check {
	check := validate.Of("server.ClientIP")
	for i, p := range c.Trusted {
		check.That(p.IsValid(), fmt.Sprintf("Trusted[%d]", i), p.String(), needsNetwork)
	}
	trusting := len(c.Trusted) > 0 || c.TrustUnix
	check.That(c.Header == "" || header.IsToken(c.Header), "Header", fmt.Sprintf("%q", c.Header), "must be the name of a header field")
	check.That(c.Header == "" || trusting, "Header", c.Header, "needs Trusted or TrustUnix: the header of no other peer is read")
	check.That(c.Hops >= 0, "Hops", c.Hops, "must be >= 0 (0: Trusted identifies the proxies)")
	if c.Hops > 0 && !trusting {
		check.That(false, "Hops", c.Hops, "needs Trusted, the networks that the last proxy connects from (0.0.0.0/0 and ::/0: any), or TrustUnix")
	} else if name := c.headerName(); c.Hops > 0 {
		check.That(name == forwardedFor || name == forwarded, "Hops", c.Hops, "is for X-Forwarded-For, which an empty Header means, and Forwarded")
	}
	check.That(c.IPv4Bits >= 0 && c.IPv4Bits <= 32, "IPv4Bits", c.IPv4Bits, "must be 0 to 32 (0 means 32)")
	check.That(c.IPv6Bits >= 0 && c.IPv6Bits <= 128, "IPv6Bits", c.IPv6Bits, "must be 0 to 128 (0 means 64)")
	return check
}

func (c ClientIP) headerName() string { return cmp.Or(http.CanonicalHeaderKey(c.Header), forwardedFor) }

const needsNetwork = "must be a network, as netip.MustParsePrefix returns it"

// A finder is a ClientIP with its defaults in place.
type finder struct {
	trusted  []netip.Prefix
	unix     bool
	header   string
	hops     int
	ip4, ip6 int
	plain    bool // the address of an IPv4 peer is the key
}

func (c ClientIP) finder() *finder {
	f := &finder{trusted: fold(c.Trusted), unix: c.TrustUnix, header: c.headerName(), hops: c.Hops, ip4: cmp.Or(c.IPv4Bits, 32), ip6: cmp.Or(c.IPv6Bits, 64)}
	f.plain = len(f.trusted) == 0 && f.ip4 == 32
	return f
}

// fold returns a copy of networks in which those of IPv4 within IPv6 are IPv4,
// since addresses are folded too.
func fold(networks []netip.Prefix) []netip.Prefix {
	networks = slices.Clone(networks)
	for i, p := range networks {
		if a := p.Addr(); a.Is4In6() && p.Bits() >= 96 {
			networks[i] = netip.PrefixFrom(a.Unmap(), p.Bits()-96)
		}
	}
	return networks
}

// within reports whether a, or the IPv4 address in it, is in one of networks.
func within(a netip.Addr, networks []netip.Prefix) bool {
	if len(networks) == 0 {
		return false
	}
	inner := embedded(a)
	for _, p := range networks {
		if p.Contains(a) || p.Contains(inner) {
			return true
		}
	}
	return false
}

func (f *finder) key(dst []byte, r *http.Request) ([]byte, bool) {
	if f.plain {
		if ip, ok := peer.IPv4(r.RemoteAddr); ok {
			return append(dst, ip...), true // 18 ns, where parsing and writing it take 42
		}
	}
	client, ok := f.client(r)
	if !ok {
		return dst, false
	}
	if inner := embedded(client); inner.IsValid() {
		client = inner
	}
	bits := f.ip4
	if localNAT64.Contains(client) {
		bits = client.BitLen()
	} else if client.Is6() {
		bits = f.ip6
	}
	if bits == client.BitLen() {
		return client.AppendTo(dst), true
	}
	network, _ := client.Prefix(bits) // Validate saw to the bits
	return network.AppendTo(dst), true
}

// client returns the address of the client, and false where there is none.
func (f *finder) client(r *http.Request) (netip.Addr, bool) {
	var addr netip.Addr
	found, trusted := false, f.unix
	if !isUnix(r.RemoteAddr) { // to parse it would fail, with an error on the heap
		addr, found = parseEntry(r.RemoteAddr)
		trusted = f.trusts(addr)
	}
	if trusted {
		if client, ok := f.forwarded(r.Header); ok {
			return client, true
		}
	}
	return addr, found
}

func (f *finder) trusts(a netip.Addr) bool { return within(a, f.trusted) }

// isUnix reports whether s is the RemoteAddr that net/http has for a unix socket. Other
// text without an IP is not, as a host name that a middleware wrote.
func isUnix(s string) bool {
	return s == "" || s[0] == '@' || strings.IndexByte(s, '/') >= 0
}
