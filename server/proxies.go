package server

import (
	"cmp"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/gresil/gresil/core"
)

// Proxies describes the proxies in front of this server. Its methods find the address of the client behind them:
//
//	behind := server.Proxies{Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
//	ratelimit.ServerOptions{Key: behind.ClientIP}
//
// Header is read only if the peer is trusted. If it cannot be used, the address is that of the peer: that can limit too much, but does not
// let a client choose its address. The zero value trusts nobody.
type Proxies struct {
	// Trusted are the networks of the proxies.
	Trusted []netip.Prefix
	// TrustUnix trusts a peer that is connected by a unix socket.
	TrustUnix bool
	// Header is the field that has the address. If empty, it is X-Forwarded-For. That is a list, which is read from the right, where the
	// nearest proxy has written, to the first address that is not trusted. Any other field has one address, which the proxy must overwrite in
	// each request. Forwarded (RFC 7239) is not supported: if it is set, the methods panic.
	Header string
	// Hops is the number of proxies, for the case that their addresses are not known: the client is the Hops-th element from the right. The
	// peer must still be in Trusted; 0.0.0.0/0 and ::/0 trust any. If zero, only Trusted counts.
	Hops int
}

// ClientIP is a [Key]: the IP address of the client, shortened like that of the function [ClientIP].
func (p Proxies) ClientIP(r *http.Request) (key string, ok bool) {
	addr := p.Addr(r)
	if inner := embedded(addr); inner.IsValid() {
		addr = inner
	}
	var text [64]byte
	if addr.Is6() && !addr.IsLinkLocalUnicast() && !localNAT64.Contains(addr) {
		network, err := addr.Prefix(64)
		return string(network.AppendTo(text[:0])), err == nil
	}
	return string(addr.AppendTo(text[:0])), addr.IsValid()
}

// Addr returns the whole address of the client. The result is not valid if there is none.
func (p Proxies) Addr(r *http.Request) netip.Addr {
	name := p.header()
	var addr netip.Addr
	trusted := p.TrustUnix
	if s := r.RemoteAddr; s != "" && s[0] != '@' && strings.IndexByte(s, '/') < 0 { // otherwise the peer is a unix socket
		addr = parseAddr(s)
		trusted = within(addr, p.Trusted)
	}
	if trusted {
		if client := p.named(r.Header[name]); client.IsValid() {
			return client
		}
	}
	return addr
}

// In returns a function that reports whether the address of the client is in one of the networks, for allow and block lists. An IPv6
// address that contains an IPv4 address matches the networks of either.
func (p Proxies) In(networks ...netip.Prefix) func(*http.Request) bool {
	p.header()
	networks = slices.Clone(networks)
	return func(r *http.Request) bool { return within(p.Addr(r), networks) }
}

const forwardedFor = "X-Forwarded-For"

// header returns the canonical name of the field.
func (p Proxies) header() string {
	name := http.CanonicalHeaderKey(cmp.Or(p.Header, forwardedFor))
	if name == "Forwarded" {
		panic(&core.ConfigError{
			Field: "server.Proxies.Header", Value: name,
			Reason: "must be X-Forwarded-For, or a field with one address: RFC 7239 is not supported",
		})
	}
	return name
}

// named returns the client that a trusted peer names in the lines of the field. The result is not valid if they cannot be used.
func (p Proxies) named(lines []string) (client netip.Addr) {
	if p.header() != forwardedFor {
		lines = lines[max(0, len(lines)-1):]
		if len(lines) > 0 {
			client = parseAddr(lines[0])
		}
		return client
	}
	hop := 0
	for _, line := range slices.Backward(lines) {
		for line != "" {
			comma := strings.LastIndexByte(line, ',')
			entry := strings.Trim(line[comma+1:], " \t")
			line = line[:max(comma, 0)]
			if entry == "" {
				continue // an empty element of a list is no element (RFC 9110, 5.6.1)
			}
			if hop++; hop < p.Hops {
				continue
			}
			client = parseAddr(entry)
			if p.Hops > 0 || !within(client, p.Trusted) { // after an invalid one, it is not known who has written the rest
				return client
			}
		}
	}
	return client
}
