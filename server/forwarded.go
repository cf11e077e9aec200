package server

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/gresil/gresil/internal/peer"
)

const (
	forwardedFor = "X-Forwarded-For"
	forwarded    = "Forwarded" // RFC 7239
)

const blank = " \t" // what may stand around the elements of a list (RFC 9110, 5.6.3)

// forwarded returns the client that the header names, and false where the header
// has none or cannot be used. The peer is trusted.
func (f *finder) forwarded(h http.Header) (netip.Addr, bool) {
	lines := h[f.header]
	cut, read := cutEntry, parseEntry
	switch f.header {
	case forwardedFor:
	case forwarded:
		cut, read = cutElement, parseElement
	default:
		if len(lines) == 0 {
			return netip.Addr{}, false
		}
		return parseEntry(strings.Trim(lines[len(lines)-1], blank))
	}
	var client netip.Addr
	hop := 0
	for _, line := range slices.Backward(lines) {
		for line != "" {
			var entry string
			entry, line = cut(line)
			if entry = strings.Trim(entry, blank); entry == "" {
				continue // an empty element of a list is no element (RFC 9110, 5.6.1)
			}
			if hop++; hop < f.hops {
				continue
			}
			addr, ok := read(entry)
			if !ok {
				return netip.Addr{}, false // the author of the rest is unknown
			}
			if f.hops > 0 || !f.trusts(addr) {
				return addr, true
			}
			client = addr
		}
	}
	return client, client.IsValid()
}

// cutEntry returns the last entry of a line of X-Forwarded-For, and the entries before
// it.
func cutEntry(line string) (entry, rest string) {
	i := strings.LastIndexByte(line, ',')
	return line[i+1:], line[:max(i, 0)]
}

func parseEntry(s string) (netip.Addr, bool) { return parseAddr(s, peer.IsPort) }

// cutElement is cutEntry for Forwarded, where a comma in a quoted string separates
// nothing. It reads from the right, too: that way nothing that a client wrote, as a
// quote that is never closed, can change how the elements of the proxies, which are
// to the right of it, are taken apart.
func cutElement(line string) (element, rest string) {
	quoted := false
	for i := len(line) - 1; i >= 0; i-- {
		switch line[i] {
		case '"':
			if quoted && escaped(line[:i]) {
				continue
			}
			quoted = !quoted
		case ',':
			if !quoted {
				return line[i+1:], line[:i]
			}
		}
	}
	return line, ""
}

// escaped reports whether the character after s is, when both are in one quoted
// string: an odd number of backslashes is before it.
func escaped(s string) bool {
	return (len(s)-len(strings.TrimRight(s, `\`)))%2 == 1
}

// parseElement returns the address in the for= of an element of Forwarded, and
// false if there is none, or two, or the element is malformed elsewhere.
func parseElement(s string) (netip.Addr, bool) {
	node, found := "", false
	for s = strings.TrimLeft(s, blank+";"); s != ""; s = strings.TrimLeft(s, blank+";") {
		name, value, rest, ok := cutParameter(s)
		s = rest
		if strings.EqualFold(name, "for") {
			ok = ok && !found
			node, found = value, true
		}
		if !ok {
			return netip.Addr{}, false
		}
	}
	if strings.IndexByte(node, '\\') >= 0 {
		node = unescape(node)
	}
	return parseAddr(node, isNodePort) // which an element without for= fails
}

// cutParameter returns the first parameter of s, its value without quotes but with
// its escapes, and what follows it. A value without quotes may have colons and
// brackets, as some proxies write addresses, though it is then no token.
func cutParameter(s string) (name, value, rest string, ok bool) {
	name, rest, _ = strings.Cut(s, "=")
	if name == "" || strings.ContainsAny(name, blank+`;"\`) {
		return "", "", "", false
	}
	if strings.HasPrefix(rest, `"`) {
		end := 1
		for end < len(rest) && rest[end] != '"' {
			if rest[end] == '\\' {
				end++
			}
			end++
		}
		if end >= len(rest) {
			return "", "", "", false
		}
		value, rest = rest[1:end], rest[end+1:]
	} else {
		end := strings.IndexAny(rest, blank+";")
		if end < 0 {
			end = len(rest)
		}
		value, rest = rest[:end], rest[end:]
		if value == "" || strings.ContainsAny(value, `"\`) {
			return "", "", "", false
		}
	}
	rest = strings.TrimLeft(rest, blank)
	return name, value, rest, rest == "" || rest[0] == ';'
}

// unescape returns the text of a quoted string, in which no backslash is the last.
func unescape(s string) string {
	text := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' {
			i++
		}
		text = append(text, s[i])
	}
	return string(text)
}

// parseAddr reads an address as RemoteAddr and proxies write it: bare or with a
// port. An IPv4 address within IPv6 is folded to IPv4 and a zone is left out, so
// that no other spelling of an address makes another client.
func parseAddr(s string, isPort func(string) bool) (netip.Addr, bool) {
	s, ok := cutPort(s, isPort)
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
func cutPort(s string, isPort func(string) bool) (string, bool) {
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

// isNodePort reports whether s is a port as Forwarded has it, which can be an obfuscated
// one, as "_p1".
func isNodePort(s string) bool {
	const obfuscated = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"
	name, ok := strings.CutPrefix(s, "_")
	if !ok {
		return peer.IsPort(s)
	}
	return name != "" && strings.Trim(name, obfuscated) == ""
}
