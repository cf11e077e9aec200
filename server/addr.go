package server

import (
	"net/netip"
	"strings"
)

// parseAddr reads an address as RemoteAddr and proxies write it: bare or with a port. An IPv4-mapped IPv6 address becomes IPv4, and a zone
// is left out, so that all spellings of an address are the same client.
func parseAddr(s string) netip.Addr {
	host, ok := cutPort(strings.Trim(s, " \t"))
	host, zone, zoned := strings.Cut(host, "%")
	addr, err := netip.ParseAddr(host)
	if !ok || err != nil || zoned && (zone == "" || addr.Is4()) {
		return netip.Addr{}
	}
	return addr.Unmap()
}

// cutPort returns the host of host:port, [host]:port, [host] or host.
func cutPort(s string) (string, bool) {
	inner, bracket := strings.CutPrefix(s, "[")
	if !bracket {
		host, port, found := strings.Cut(s, ":")
		if !found || strings.Contains(port, ":") {
			return s, true // no port, or IPv6
		}
		return host, isPort(port)
	}
	host, rest, closed := strings.Cut(inner, "]")
	port, has := strings.CutPrefix(rest, ":")
	return host, closed && (rest == "" || has && isPort(port))
}

// within reports whether a, or the IPv4 address embedded in it, is in one of networks.
func within(a netip.Addr, networks []netip.Prefix) bool {
	if len(networks) == 0 {
		return false
	}
	inner := embedded(a)
	for _, p := range networks {
		if n := p.Addr(); n.Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(n.Unmap(), p.Bits()-96) // as parseAddr does with addresses
		}
		if p.Contains(a) || p.Contains(inner) {
			return true
		}
	}
	return false
}

// The networks whose addresses contain an IPv4 address at a known place. IPv4-mapped addresses, ::ffff:0:0/96, are not
// among them: parseAddr has made them IPv4.
var (
	nat64     = netip.MustParsePrefix("64:ff9b::/96")    //nolint:gochecknoglobals // a constant: RFC 6052, an IPv4 client of a NAT64
	siit      = netip.MustParsePrefix("::ffff:0:0:0/96") //nolint:gochecknoglobals // a constant: RFC 2765, of a stateless translator
	compat    = netip.MustParsePrefix("::/96")           //nolint:gochecknoglobals // a constant: RFC 4291, IPv4-compatible
	sixToFour = netip.MustParsePrefix("2002::/16")       //nolint:gochecknoglobals // a constant: RFC 3056, a site behind one IPv4 address
	teredo    = netip.MustParsePrefix("2001::/32")       //nolint:gochecknoglobals // a constant: RFC 4380, behind the IPv4 address of a NAT
)

// localNAT64 is for the translators of an operator (RFC 8215), who also chooses where in the address the IPv4 address
// is. Clients cannot choose their addresses there, so the whole address is the key.
var localNAT64 = netip.MustParsePrefix("64:ff9b:1::/48") //nolint:gochecknoglobals // a constant

// embedded returns the IPv4 address in an IPv6 address, or the zero Addr if there is none. 6to4 and Teredo are for
// global addresses only: with any other IPv4 address, the IPv6 address is forged.
func embedded(a netip.Addr) netip.Addr {
	if !a.Is6() {
		return netip.Addr{}
	}
	b := a.As16()
	switch {
	case nat64.Contains(a), siit.Contains(a), compat.Contains(a) && b[12] != 0: // not :: and ::1
		return netip.AddrFrom4([4]byte(b[12:]))
	case sixToFour.Contains(a):
		return global(netip.AddrFrom4([4]byte(b[2:])))
	case teredo.Contains(a):
		return global(netip.AddrFrom4([4]byte{^b[12], ^b[13], ^b[14], ^b[15]}))
	}
	return netip.Addr{}
}

// global returns a, or the zero Addr if a is not routed globally.
func global(a netip.Addr) netip.Addr {
	if a.IsGlobalUnicast() && !a.IsPrivate() && a.As4()[0] != 0 {
		return a
	}
	return netip.Addr{}
}

// ipv4 returns the IP of remoteAddr if it is an IPv4 address with a port, as net/http writes it, and false otherwise.
// net/netip accepts every address that ipv4 accepts, and writes it in the same way. So the text can be the key without
// parsing.
func ipv4(remoteAddr string) (ip string, ok bool) {
	dots, digits, value := 0, 0, 0
	for i := 0; i < len(remoteAddr); i++ {
		switch c := remoteAddr[i]; {
		case c >= '0' && c <= '9':
			if digits > 0 && value == 0 {
				return "", false // a leading zero
			}
			value = value*10 + int(c-'0')
			if digits++; value > 255 {
				return "", false
			}
		case digits == 0 || c != '.' && c != ':':
			return "", false
		case c == '.':
			if dots++; dots > 3 {
				return "", false
			}
			digits, value = 0, 0
		default:
			return remoteAddr[:i], dots == 3 && isPort(remoteAddr[i+1:])
		}
	}
	return "", false
}

// isPort reports whether s is a number.
func isPort(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}
