package server_test

import (
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/server"
)

// with returns a request with the lines of one field.
func with(remoteAddr, field string, lines ...string) *http.Request {
	return &http.Request{RemoteAddr: remoteAddr, Header: http.Header{field: lines}}
}

func TestRFC7239_Forwarded(t *testing.T) {
	t.Parallel()
	const peer = "10.0.0.1"
	key := core.Must(server.ClientIP{Trusted: prefixes("10.0.0.0/8", "fd00::/8"), Header: "forwarded", IPv6Bits: 128}.Key())
	for _, tt := range []struct {
		name  string
		lines []string
		want  string
	}{
		{"token", []string{"for=203.0.113.9"}, "203.0.113.9"},
		{"quoted", []string{`for="203.0.113.9"`}, "203.0.113.9"},
		{"port", []string{`for="203.0.113.9:4711"`}, "203.0.113.9"},
		{"obfuscated port", []string{`for="203.0.113.9:_p"`}, "203.0.113.9"},
		{"IPv6", []string{`for="[2001:db8::1]"`}, "2001:db8::1"},
		{"IPv6 with a port", []string{`for="[2001:db8::1]:4711"`}, "2001:db8::1"},
		{"IPv6 with an obfuscated port", []string{`for="[2001:db8::1]:_aZ9.-_"`}, "2001:db8::1"},
		{"IPv6 with a zone", []string{`for="[fe80::1%eth0]:1"`}, "fe80::1"},
		{"IPv6 without brackets", []string{`for="2001:db8::1"`}, "2001:db8::1"},
		{"IPv4 within IPv6", []string{`for="[::ffff:203.0.113.9]:1"`}, "203.0.113.9"},
		{"no quotes around a port", []string{"for=203.0.113.9:4711"}, "203.0.113.9"},
		{"no quotes around brackets", []string{"for=[2001:db8::1]:4711"}, "2001:db8::1"},
		{"escapes", []string{`for="\203.0.113\.9:47\11"`}, "203.0.113.9"},
		{"name in capitals", []string{"FOR=203.0.113.9;PROTO=http"}, "203.0.113.9"},
		{"first parameter", []string{"for=203.0.113.9;proto=http;by=10.0.0.2"}, "203.0.113.9"},
		{"last parameter", []string{"by=10.0.0.2;proto=http;for=203.0.113.9"}, "203.0.113.9"},
		{"unknown parameters", []string{"x=1;for=203.0.113.9;Secret=a==;y=\"\""}, "203.0.113.9"},
		{"spaces at semicolons", []string{"by=10.0.0.2 ;\tfor=203.0.113.9 ; proto=http "}, "203.0.113.9"},
		{"empty parameters", []string{";;for=203.0.113.9; ;"}, "203.0.113.9"},
		{"delimiters in quotes", []string{`by="a,for=1.1.1.1;for=2.2.2.2";for=203.0.113.9;host="b,c;d"`}, "203.0.113.9"},
		{"escaped quotes in quotes", []string{`by="\",for=1.1.1.1,\"";for=203.0.113.9;host="\\"`}, "203.0.113.9"},
		{"escaped backslash before the end", []string{`for=203.0.113.9;host="a\\", for=10.0.0.3;host="\\\""`}, "203.0.113.9"},

		{"behind two proxies", []string{"for=203.0.113.9, for=10.0.0.2"}, "203.0.113.9"},
		{"what the client wrote is left of it", []string{"for=1.1.1.1, for=203.0.113.9,for=10.0.0.2"}, "203.0.113.9"},
		{"all lines are one list", []string{"for=1.1.1.1", `for=203.0.113.9;proto=https`, `for="[fd00::2]:80"`}, "203.0.113.9"},
		{"empty elements", []string{"for=203.0.113.9,, ", ",for=10.0.0.2, \t,"}, "203.0.113.9"},
		{"all trusted: the leftmost", []string{"for=10.0.0.5, for=10.0.0.2"}, "10.0.0.5"},
		{"trusted in another spelling", []string{`for=203.0.113.9, for="[::ffff:10.0.0.2]:_x"`}, "203.0.113.9"},

		{"no header", nil, peer},
		{"empty header", []string{"", " , ,"}, peer},
		{"unknown", []string{"for=203.0.113.9, for=unknown"}, peer},
		{"unknown with a port", []string{`for=203.0.113.9, for="unknown:80"`}, peer},
		{"obfuscated node", []string{"for=203.0.113.9, for=_hidden"}, peer},
		{"obfuscated node with a port", []string{`for=203.0.113.9, for="_hidden:_p"`}, peer},
		{"unknown behind a trusted hop", []string{"for=203.0.113.9, for=unknown, for=10.0.0.2"}, peer},
		{"no for=", []string{"for=203.0.113.9, proto=http"}, peer},
		{"no parameter", []string{"for=203.0.113.9, ;"}, peer},
		{"for= twice", []string{"for=203.0.113.9;for=203.0.113.9"}, peer},
		{"for= twice, once in capitals", []string{"for=203.0.113.9;proto=http;For=203.0.113.8"}, peer},
		{"for= twice, the first empty", []string{`for="";for=203.0.113.9`}, peer},
		{"empty", []string{"for="}, peer},
		{"empty quotes", []string{`for=""`}, peer},
		{"no equals sign", []string{"for=203.0.113.9;secure"}, peer},
		{"empty name", []string{"for=203.0.113.9;=x"}, peer},
		{"empty value of another", []string{"for=203.0.113.9;proto="}, peer},
		{"space before the equals sign", []string{"for =203.0.113.9"}, peer},
		{"space after the equals sign", []string{"for= 203.0.113.9"}, peer},
		{"two words", []string{"for=203.0.113.9 proto=http"}, peer},
		{"text after quotes", []string{`for="203.0.113.9"x`}, peer},
		{"quote in a token", []string{`for=203.0.113.9"`}, peer},
		{"quote that is not closed", []string{`for="203.0.113.9`}, peer},
		{"quote closed by an escape", []string{`for="203.0.113.9\"`}, peer},
		{"backslash in a token", []string{`for=203.0.113.\9`}, peer},
		{"bare address, as in X-Forwarded-For", []string{"203.0.113.9"}, peer},
		{"port that is none", []string{`for="203.0.113.9:_"`}, peer},
		{"port that is none either", []string{`for="203.0.113.9:_a+b"`}, peer},
		{"port of letters", []string{`for="203.0.113.9:http"`}, peer},
		{"two ports", []string{`for="203.0.113.9:80:_p"`}, peer},
		{"obfuscated port without brackets", []string{`for="2001:db8::1:_p"`}, peer},
		{"bracket that is not closed", []string{`for="[2001:db8::1"`}, peer},
		{"zone of IPv4", []string{`for="203.0.113.9%eth0"`}, peer},

		{"garbage left of the client", []string{"<script>, for=203.0.113.9"}, "203.0.113.9"},
		{"open quote left of the client", []string{`for="1.1.1.1, for=203.0.113.9`}, "203.0.113.9"},
		{"open quote that the next proxy's would close", []string{`for=1.1.1.1;x=", for="203.0.113.9:80";by="_a"`}, "203.0.113.9"},
		{"backslash left of the client", []string{`for="1.1.1.1\, for="203.0.113.9"`}, "203.0.113.9"},
		{"open quote in a line of its own", []string{`for="1.1.1.1`, `for="203.0.113.9"`}, "203.0.113.9"},
		{"garbage behind a trusted hop", []string{`for=203.0.113.9, x", for=10.0.0.2`}, peer},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, keyOf(key, with("10.0.0.1:999", "Forwarded", tt.lines...)))
			require.Equal(t, "198.51.100.7", keyOf(key, with("198.51.100.7:1", "Forwarded", tt.lines...)), "untrusted peer")
			require.Equal(t, peer, keyOf(server.ByClientIP(prefixes("10.0.0.0/8")...), with("10.0.0.1:999", "Forwarded", tt.lines...)), "not asked for")
		})
	}
}

func TestRFC7239_Hops(t *testing.T) {
	t.Parallel()
	key := core.Must(server.ClientIP{Trusted: prefixes("0.0.0.0/0", "::/0"), Header: "Forwarded", Hops: 2}.Key())
	for _, tt := range []struct {
		name  string
		lines []string
		want  string
	}{
		{"second from the right", []string{"for=1.1.1.1, for=203.0.113.9, for=198.51.100.3"}, "203.0.113.9"},
		{"over two lines", []string{"for=1.1.1.1, for=203.0.113.9", "for=198.51.100.3"}, "203.0.113.9"},
		{"empty elements do not count", []string{"for=203.0.113.9,,", ",for=198.51.100.3,"}, "203.0.113.9"},
		{"a comma in quotes does not count", []string{`for=203.0.113.9, for=198.51.100.3;host="a,b"`}, "203.0.113.9"},
		{"the nearer ones are not looked into", []string{"for=203.0.113.9, by=_hidden"}, "203.0.113.9"},
		{"not even for their syntax", []string{"for=203.0.113.9, <script>"}, "203.0.113.9"},
		{"a quote that is not closed takes all of its line", []string{"for=203.0.113.9", `for=1.1.1.1, x"`}, "203.0.113.9"},
		{"too few: the peer", []string{"for=203.0.113.9"}, "10.0.0.1"},
		{"unknown: the peer", []string{"for=1.1.1.1, for=unknown, for=198.51.100.3"}, "10.0.0.1"},
	} {
		require.Equal(t, tt.want, keyOf(key, with("10.0.0.1:1", "Forwarded", tt.lines...)), tt.name)
	}
}

// What RFC 7239 says an element is, with the spaces and the characters without
// quotes that are put up with.
const (
	refPair = `[^ \t";\\=]+=(?:[^ \t";\\,]+|"(?:[^"\\]|\\.)*")`
	refPort = `(?::(?:[0-9]+|_[-._0-9A-Za-z]+))?$`
)

var (
	refElement = regexp.MustCompile(`(?s)^[ \t]*(?:` + refPair + `)?[ \t]*(?:;[ \t]*(?:` + refPair + `)?[ \t]*)*$`)
	refParam   = regexp.MustCompile(`(?s)[^ \t";\\=]+=(?:"(?:[^"\\]|\\.)*"|[^ \t";\\,]+)`)
	refEscape  = regexp.MustCompile(`(?s)\\(.)`)
	refBracket = regexp.MustCompile(`^\[([^\]]*)\]` + refPort)
	refIPv4    = regexp.MustCompile(`^([^:\[]*)` + refPort)
)

// refForwarded is a second opinion on Forwarded: for each place of a comma, from
// the right, it asks a regular expression whether what follows is an element. It
// has no opinion on what is behind a malformed element that is only counted.
func refForwarded(lines []string, hops int, trusts func(netip.Addr) bool) (client netip.Addr, sure bool) {
	elements := []string{} // from the right; "" is a malformed one
	for i := len(lines) - 1; i >= 0; i-- {
		for line, more := lines[i], true; more; {
			at := len(line)
			for at >= 0 {
				at = strings.LastIndexByte(line[:at], ',')
				if refElement.MatchString(line[at+1:]) {
					break
				}
				if at < 0 {
					at = -2
				}
			}
			if at == -2 {
				elements = append(elements, "")
				break
			}
			if element := line[at+1:]; strings.Trim(element, " \t") != "" {
				elements = append(elements, element)
			}
			if more = at >= 0; more {
				line = line[:at]
			}
		}
	}
	if hops > 0 {
		if slices.Contains(elements[:min(hops-1, len(elements))], "") {
			return netip.Addr{}, false
		}
		if len(elements) < hops {
			return netip.Addr{}, true
		}
		return refNode(elements[hops-1]), true
	}
	for _, element := range elements {
		addr := refNode(element)
		if !addr.IsValid() || !trusts(addr) {
			return addr, true
		}
		client = addr
	}
	return client, true
}

func refNode(element string) netip.Addr {
	var nodes []string
	for _, p := range refParam.FindAllString(element, -1) {
		if name, value, _ := strings.Cut(p, "="); strings.EqualFold(name, "for") {
			if strings.HasPrefix(value, `"`) {
				value = refEscape.ReplaceAllString(value[1:len(value)-1], "$1")
			}
			nodes = append(nodes, value)
		}
	}
	if len(nodes) != 1 {
		return netip.Addr{}
	}
	host := nodes[0]
	if m := refBracket.FindStringSubmatch(host); m != nil {
		host = m[1]
	} else if m := refIPv4.FindStringSubmatch(host); m != nil {
		host = m[1]
	}
	host, zone, zoned := strings.Cut(host, "%")
	addr, err := netip.ParseAddr(host)
	if err != nil || zoned && (zone == "" || addr.Is4()) {
		return netip.Addr{}
	}
	return addr.Unmap()
}

// Whatever a client writes into Forwarded, in whatever lines: it is read as the
// reference reads it, it is not read from somebody who is not trusted, and the
// element that a proxy appends says who the client is.
func FuzzForwarded(f *testing.F) {
	for i, seed := range []string{
		"", "for=1.1.1.1", "for=10.0.0.2, for=10.0.0.3", ",,,", ";", "for=unknown", "\n", "for=1.1.1.1\nfor=2.2.2.2", `for="[::1]:80"`,
		`for="[2001:db8::1]:_p";by=x`, `for="1.1.1.1`, `for="1.1.1.1\`, `x="\`, `"`, `\`, `\"`, `a="b,c;d";for=1.1.1.1`, `for="\1.1.1.1"`,
		`for=1.1.1.1;for=2.2.2.2`, `for=1.1.1.1;host="a\\", for=10.0.0.2`, `for="[fe80::1%x]"`, `for="::ffff:10.0.0.2"`, "for=1.1.1.1;x", "for=a%b",
		`for="1.2.3.4:80:_p"`, "for=[1.2.3.4]", "FOR=1.1.1.1 ; a=b", "for=1.1.1.1;a", "\x00", "for=\xff", strings.Repeat(`for="1.1.1.1",`, 50),
	} {
		f.Add(seed, uint8(i))
	}
	trusted := prefixes("10.0.0.0/8")
	trusts := trusted[0].Contains
	f.Fuzz(func(t *testing.T, evil string, hops uint8) {
		lines := strings.Split(evil, "\n")
		for _, hops := range []int{0, int(hops % 5)} {
			ip := server.ClientIP{Trusted: trusted, Header: "Forwarded", Hops: hops, IPv6Bits: 128}
			key := core.Must(ip.Key())
			want, sure := refForwarded(lines, hops, trusts)
			if !want.IsValid() {
				want = netip.MustParseAddr("10.0.0.1")
			}
			if got := keyOf(key, with("10.0.0.1:1", "Forwarded", lines...)); sure {
				require.Equal(t, want.String(), got, "hops %d", hops)
			}
			require.Equal(t, "198.51.100.7", keyOf(key, with("198.51.100.7:1", "Forwarded", lines...)), "an untrusted peer is the client")
		}
		walk := core.Must(server.ClientIP{Trusted: trusted, Header: "Forwarded"}.Key())
		for _, element := range []string{"for=203.0.113.9", `by="a,\"";For="203.0.113.9:_p";host="\\"`} {
			last := len(lines) - 1
			appended := append(append([]string(nil), lines[:last]...), lines[last]+", "+element)
			added := append(append([]string(nil), lines...), element)
			for _, list := range [][]string{appended, added, append(added, `for="10.0.0.2";by="x,y"`)} {
				require.Equal(t, "203.0.113.9", keyOf(walk, with("10.0.0.1:1", "Forwarded", list...)))
			}
		}
	})
}

// With a number of hops, the client is whom the first of these proxies saw,
// whatever the client sent and whatever the later ones wrote.
func FuzzHops(f *testing.F) {
	f.Add("", uint8(1), false)
	f.Add("1.1.1.1, 2.2.2.2", uint8(2), false)
	f.Add("for=\"1.1.1.1, for=2.2.2.2\nfor=3.3.3.3", uint8(3), true)
	f.Add(`x="\`, uint8(9), true)
	f.Fuzz(func(t *testing.T, evil string, hops uint8, newLines bool) {
		n := int(hops%9) + 1
		for field, write := range map[string]func(string) string{
			"X-Forwarded-For": func(addr string) string { return addr },
			"Forwarded":       func(addr string) string { return `by="_a,\"b";for="` + addr + `:80"` },
		} {
			lines := strings.Split(evil, "\n")
			for i := range n {
				element := write("198.51.100.3")
				if i == 0 {
					element = write("203.0.113.9")
				}
				if newLines {
					lines = append(lines, element)
				} else {
					lines[len(lines)-1] += ", " + element
				}
			}
			key := core.Must(server.ClientIP{Trusted: prefixes("0.0.0.0/0"), Header: field, Hops: n}.Key())
			require.Equal(t, "203.0.113.9", keyOf(key, with("10.0.0.1:1", field, lines...)))
			if lines = lines[len(lines)-1:]; newLines && n > 1 {
				require.Equal(t, "10.0.0.1", keyOf(key, with("10.0.0.1:1", field, lines...)), "fewer proxies than hops")
			}
		}
	})
}
