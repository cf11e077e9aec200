package server_test

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/server"
)

// A composed key is injective: two requests have one key only if they have every
// part in common, whatever the parts are.
func FuzzAllOf(f *testing.F) {
	for _, seed := range [][4]string{
		{"a:b", "c", "a", "b:c"},
		{"", "", "", ""},
		{"1:", "", "", "1:"},
		{"a", "", "", "a"},
		{"3:abc", "d", "3", "abc1:d"},
		{"\x00", "\xff", "\x00\xff", ""},
		{"1:a", "1:a", "1:a1", "a"},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3])
	}
	part := func(name string) server.Key {
		return func(r *http.Request) (string, bool) { return r.Header[name][0], true }
	}
	r := func(a, b string) *http.Request { return &http.Request{Header: http.Header{"a": {a}, "b": {b}}} }
	f.Fuzz(func(t *testing.T, a1, b1, a2, b2 string) {
		same := a1 == a2 && b1 == b2
		for name, key := range map[string]server.Key{
			"flat":   server.AllOf(part("a"), part("b")),
			"nested": server.AllOf(server.AllOf(part("a")), server.FirstOf(part("b"))),
		} {
			require.Equal(t, same, keyOf(key, r(a1, b1)) == keyOf(key, r(a2, b2)), name)
		}
		first := keyOf(server.FirstOf(part("a"), part("b")), r(a1, b1))
		second := keyOf(server.FirstOf(server.User, part("b")), r(a2, b2))
		require.NotEqual(t, first, second, "the choice is part of the key")
	})
}

// Whatever a client writes into X-Forwarded-For, in whatever lines: the proxy
// appends the address it saw, and that is who the client is.
func FuzzXForwardedFor(f *testing.F) {
	for _, seed := range []string{
		"", "1.1.1.1", "10.0.0.2", "10.0.0.2, 10.0.0.3", ",,,", "unknown", "\n", "1.1.1.1\n2.2.2.2", "[::1]:80", "::ffff:10.0.0.2",
		"fe80::1%eth0", "%", "[", "]", ":", "1.1.1.1:", "[]:1", "2001:db8::/64", "999.1.1.1", "\x00", strings.Repeat("1.1.1.1,", 100),
	} {
		f.Add(seed)
	}
	trusted := prefixes("10.0.0.0/8")
	walk := server.Proxies{Trusted: trusted}.ClientIP
	hops := server.Proxies{Trusted: trusted, Hops: 1}.ClientIP
	f.Fuzz(func(t *testing.T, evil string) {
		lines := strings.Split(evil, "\n")
		appended := append(append([]string(nil), lines[:len(lines)-1]...), lines[len(lines)-1]+", 203.0.113.9")
		added := append(append([]string(nil), lines...), "203.0.113.9")
		for _, xff := range [][]string{appended, added} {
			require.Equal(t, "203.0.113.9", keyOf(walk, from("10.0.0.1:1", xff...)))
			require.Equal(t, "203.0.113.9", keyOf(hops, from("10.0.0.1:1", xff...)))
			require.Equal(t, "203.0.113.9", keyOf(walk, from("10.0.0.1:1", append(xff, "10.0.0.2")...)))
		}
		require.Equal(t, "198.51.100.7", keyOf(walk, from("198.51.100.7:1", lines...)), "an untrusted peer is the client")
		require.NotEqual(t, "(none)", keyOf(walk, from("10.0.0.1:1", lines...)))
	})
}

// FuzzIPv4 looks for an address that net/netip reads otherwise.
func FuzzIPv4(f *testing.F) {
	for _, s := range []string{
		"", ":", "1.2.3.4", "1.2.3.4:", "1.2.3.4:80", "1.2.3.4:080", "0.0.0.0:0", "255.255.255.255:65535", "256.2.3.4:1", "1.2.3.04:1", "1.2.3.00:1",
		"1.2.3:80", "1.2.3.4.5:80", "1..3.4:80", ".1.2.3:80", "1.2.3.:80", "1.2.3.4:8o", "1.2.3.4:80:80", "::1", "[::1]:80", "[1.2.3.4]:80", "::ffff:1.2.3.4",
		"1.2.3.4%a:80", " 1.2.3.4:80", "@", "host:80", "99999999999999999999.2.3.4:1",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		host, digits, found := strings.Cut(s, ":")
		addr, err := netip.ParseAddr(host)
		want := found && digits != "" && strings.Trim(digits, "0123456789") == "" && err == nil && addr.Is4()
		ip, ok := server.IPv4(s)
		if ok != want || ok && ip != addr.String() {
			t.Fatalf("IPv4(%q) = %q, %t, want %v, %t", s, ip, ok, addr, want)
		}
	})
}
