package server

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

const forwardedFor = "X-Forwarded-For"

// forwarded returns the client that the header names, and false where the header
// has none or cannot be used. The peer is trusted.
func (f *finder) forwarded(h http.Header) (netip.Addr, bool) {
	if f.header != "" {
		values := h[f.header]
		if len(values) == 0 {
			return netip.Addr{}, false
		}
		return parseAddr(strings.TrimSpace(values[len(values)-1]))
	}
	var client netip.Addr
	hop := 0
	for _, line := range slices.Backward(h[forwardedFor]) {
		for line != "" {
			var entry string
			i := strings.LastIndexByte(line, ',')
			entry, line = strings.TrimSpace(line[i+1:]), line[:max(i, 0)]
			if entry == "" {
				continue // an empty element of a list is no element (RFC 9110, 5.6.1)
			}
			if hop++; hop < f.hops {
				continue
			}
			addr, ok := parseAddr(entry)
			if !ok {
				return netip.Addr{}, false // what is left of it was written by who knows whom
			}
			if f.hops > 0 || !f.trusts(addr) {
				return addr, true
			}
			client = addr
		}
	}
	return client, client.IsValid()
}

// parseAddr reads an address as RemoteAddr and proxies write it: bare or with a
// port. An IPv4 address within IPv6 is folded to IPv4 and a zone is left out, so
// that no other spelling of an address makes another client.
func parseAddr(s string) (netip.Addr, bool) {
	s, ok := cutPort(s)
	if !ok {
		return netip.Addr{}, false
	}
	s, zone, zoned := strings.Cut(s, "%")
	addr, err := netip.ParseAddr(s)
	if err != nil || zoned && (zone == "" || addr.Is4()) {
		return netip.Addr{}, false
	}
	return addr.Unmap(), true
}

// cutPort returns the host of host:port, [host]:port, [host] or host.
func cutPort(s string) (string, bool) {
	inner, bracket := strings.CutPrefix(s, "[")
	if !bracket {
		i := strings.LastIndexByte(s, ':')
		if i < 0 || strings.IndexByte(s[:i], ':') >= 0 {
			return s, true // no port, or IPv6
		}
		return s[:i], isPort(s[i+1:])
	}
	host, rest, closed := strings.Cut(inner, "]")
	port, has := strings.CutPrefix(rest, ":")
	return host, closed && (rest == "" || has && isPort(port))
}

func isPort(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}
