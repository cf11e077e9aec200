package peer_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/gresil/gresil/internal/peer"
)

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
		ip, ok := peer.IPv4(s)
		if ok != want || ok && ip != addr.String() {
			t.Fatalf("IPv4(%q) = %q, %t, want %v, %t", s, ip, ok, addr, want)
		}
	})
}
