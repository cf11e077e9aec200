package server

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"

	"github.com/gresil/gresil/core"
)

// The lengths of the networks that count as one client.
const (
	// DefaultIPv4Bits is a single address.
	DefaultIPv4Bits = 32
	// DefaultIPv6Bits is what one customer has at least: anyone can use all
	// addresses of a /64.
	DefaultIPv6Bits = 64
)

// ClientIP says how the address of a client is found. The zero value takes
// RemoteAddr and no header at all: whatever a client writes into one changes
// nothing.
//
// Behind proxies, name the networks of the proxies. A header is read only when
// the peer, which is RemoteAddr, is in one of them. If what the header says
// cannot be used, the peer's own address is taken: that may limit too much, and
// lets nobody choose who to be.
type ClientIP struct {
	// Trusted are the networks of your own proxies. If empty, nobody is trusted.
	Trusted []netip.Prefix
	// Header is the field that holds the address. If empty, it is
	// X-Forwarded-For: its lines are taken as one list and read from the right,
	// where the nearest proxy wrote; addresses in Trusted are skipped, and the
	// first that is not is the client. Where all are in Trusted it is the
	// leftmost.
	//
	// Any other field holds one address; the last value counts. It has to be one
	// that the proxy overwrites on every request, as CF-Connecting-IP is.
	Header string
	// Hops is how many proxies there are between the client and this server, for
	// X-Forwarded-For, where their addresses are not known one by one: the client
	// is the Hops-th address from the right. Trusted then has the networks that
	// the last proxy connects from; 0.0.0.0/0 and ::/0 are any. If zero, proxies
	// are told by Trusted alone, which is better where it can be done.
	Hops int
	// IPv4Bits and IPv6Bits are how many leading bits of an address make the key:
	// all addresses that share them are one client. If zero, DefaultIPv4Bits and
	// DefaultIPv6Bits are used.
	IPv4Bits, IPv6Bits int
}

// ByClientIP is the IP address of the client: RemoteAddr or, when RemoteAddr is
// in one of the trusted networks, what X-Forwarded-For says. It is
// ClientIP{Trusted: trusted} with all else at its default: IPv6 by /64. An
// invalid prefix trusts nobody.
//
// It allocates nothing. A RemoteAddr without an IP, as that of a unix socket is,
// is the key as it stands, and no header is read for it.
func ByClientIP(trusted ...netip.Prefix) Key {
	return ClientIP{Trusted: trusted}.finder().key
}

// Key returns the key, or an error that reports every field that cannot be used.
func (c ClientIP) Key() (Key, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return c.finder().key, nil
}

// Validate reports every field that cannot be used, joined.
func (c ClientIP) Validate() error {
	var errs []error
	bad := func(field string, value any, reason string) {
		errs = append(errs, &core.ConfigError{Field: "server.ClientIP." + field, Value: value, Reason: reason})
	}
	for i, p := range c.Trusted {
		if !p.IsValid() {
			bad(fmt.Sprintf("Trusted[%d]", i), p, "must be a network, as netip.MustParsePrefix returns it")
		}
	}
	header := http.CanonicalHeaderKey(c.Header)
	switch {
	case header == "Forwarded":
		bad("Header", c.Header, "must hold one address, which Forwarded does not")
	case c.Header != "" && len(c.Trusted) == 0:
		bad("Header", c.Header, "needs Trusted: nobody else's header is read")
	}
	switch {
	case c.Hops < 0:
		bad("Hops", c.Hops, "must be >= 0 (0: proxies are told by Trusted)")
	case c.Hops > 0 && len(c.Trusted) == 0:
		bad("Hops", c.Hops, "needs Trusted: the networks that the last proxy connects from (0.0.0.0/0 and ::/0: any)")
	case c.Hops > 0 && header != "" && header != forwardedFor:
		bad("Hops", c.Hops, "is for X-Forwarded-For: leave Header empty")
	}
	if c.IPv4Bits < 0 || c.IPv4Bits > 32 {
		bad("IPv4Bits", c.IPv4Bits, "must be 0 to 32 (0 means 32)")
	}
	if c.IPv6Bits < 0 || c.IPv6Bits > 128 {
		bad("IPv6Bits", c.IPv6Bits, "must be 0 to 128 (0 means 64)")
	}
	return errors.Join(errs...)
}

// A finder is a ClientIP with its defaults in place.
type finder struct {
	trusted  []netip.Prefix
	header   string // of one address; empty: X-Forwarded-For
	hops     int
	ip4, ip6 int
}

func (c ClientIP) finder() *finder {
	f := &finder{trusted: slices.Clone(c.Trusted), hops: c.Hops, ip4: c.IPv4Bits, ip6: c.IPv6Bits}
	for i, p := range f.trusted {
		if a := p.Addr(); a.Is4In6() && p.Bits() >= 96 { // addresses are folded, so networks are too
			f.trusted[i] = netip.PrefixFrom(a.Unmap(), p.Bits()-96)
		}
	}
	if f.header = http.CanonicalHeaderKey(c.Header); f.header == forwardedFor {
		f.header = ""
	}
	if f.ip4 == 0 {
		f.ip4 = DefaultIPv4Bits
	}
	if f.ip6 == 0 {
		f.ip6 = DefaultIPv6Bits
	}
	return f
}

func (f *finder) key(dst []byte, r *http.Request) ([]byte, bool) {
	peer, ok := parseAddr(r.RemoteAddr)
	if !ok {
		return append(dst, r.RemoteAddr...), r.RemoteAddr != ""
	}
	client := peer
	if f.trusts(peer) {
		if addr, ok := f.forwarded(r.Header); ok {
			client = addr
		}
	}
	bits := f.ip4
	if client.Is6() {
		bits = f.ip6
	}
	if bits == client.BitLen() {
		return client.AppendTo(dst), true
	}
	network, _ := client.Prefix(bits) // Validate saw to the bits
	return network.AppendTo(dst), true
}

func (f *finder) trusts(a netip.Addr) bool {
	for _, p := range f.trusted {
		if p.Contains(a) {
			return true
		}
	}
	return false
}
