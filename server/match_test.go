package server_test

import (
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/server"
)

func TestKeyIn(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("k", 1000)
	byKey := server.KeyIn(server.ByHeader("X-API-Key"), "k1", "k2", long)
	for value, want := range map[string]bool{"k1": true, "k2": true, "K1": false, "k": false, "k11": false, "": false, long: true, long[1:]: false} {
		require.Equal(t, want, byKey(get("/", "X-API-Key", value)), "%.20s", value)
	}
	require.False(t, byKey(get("/")), "no key")
	require.False(t, server.KeyIn(server.ByHeader("A"), "")(get("/", "A", "")), "no key either")
	require.False(t, server.KeyIn(server.ByHeader("X-API-Key"))(get("/", "X-API-Key", "k1")), "no values")
	require.True(t, server.KeyIn(server.ByClientIP(), "2001:db8::/64")(from("[2001:db8::1]:1")))
	require.True(t, server.KeyIn(server.Keys(server.ByHeader("A")), "1:a")(get("/", "A", "a")), "marks and all")
}

func TestKeyIn_KeepsItsValues(t *testing.T) {
	t.Parallel()
	values := []string{"k1"}
	in := server.KeyIn(server.ByHeader("A"), values...)
	values[0] = "k2"
	require.True(t, in(get("/", "A", "k1")))
	require.False(t, in(get("/", "A", "k2")))
}

func TestKeyIn_Concurrent(t *testing.T) {
	t.Parallel()
	in := server.KeyIn(server.ByHeader("A"), "aaaa", "bbbb")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			value := []string{"aaaa", "bbbb", "aabb", "bbaa"}[i%4]
			r := &http.Request{Header: http.Header{"A": {value}}}
			for range 1000 {
				if in(r) != (i%4 < 2) {
					t.Error(value)
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestClientIP_InNetworks(t *testing.T) {
	t.Parallel()
	c := server.ClientIP{Trusted: prefixes("10.0.0.0/8"), IPv4Bits: 8, IPv6Bits: 32}
	in := core.Must(c.In(prefixes("192.0.2.0/24", "::ffff:198.51.100.0/120", "2001:db8:0:1::/64", "2001:db8:0:2::7/128")...))
	for _, tt := range []struct {
		name string
		r    *http.Request
		want bool
	}{
		{"IPv4", from("192.0.2.255:1"), true},
		{"the next network", from("192.0.3.0:1"), false},
		{"IPv4 within IPv6", from("[::ffff:192.0.2.1]:1"), true},
		{"behind a NAT64", from("[64:ff9b::192.0.2.1]:1"), true},
		{"the next network behind a NAT64", from("[64:ff9b::192.0.3.0]:1"), false},
		{"of a 6to4 site", from("[2002:c000:201::1]:1"), true},
		{"of a network within IPv6", from("198.51.100.9:1"), true},
		{"both", from("[::ffff:198.51.100.9]:1"), true},
		{"not of a network within IPv6", from("198.51.101.9:1"), false},
		{"IPv6", from("[2001:db8:0:1:ffff::1]:1"), true},
		{"IPv6 with a zone", from("[2001:db8:0:1::1%eth0]:1"), true},
		{"one address", from("[2001:db8:0:2::7]:1"), true},
		{"its neighbour, which has the same key", from("[2001:db8:0:2::8]:1"), false},
		{"behind a proxy", from("10.0.0.1:1", "192.0.2.1"), true},
		{"the proxy itself", from("10.0.0.1:1"), false},
		{"a forged header", from("203.0.113.9:1", "192.0.2.1"), false},
		{"no address", from("@", "192.0.2.1"), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, in(tt.r))
		})
	}
	translated := core.Must(server.ClientIP{}.In(prefixes("64:ff9b::/96")...))
	require.True(t, translated(from("[64:ff9b::192.0.2.1]:1")))
	require.False(t, translated(from("192.0.2.1:1")), "not all of IPv4")
	all := core.Must(server.ClientIP{}.In(prefixes("0.0.0.0/0", "::/0")...))
	require.True(t, all(from("1.2.3.4:1")))
	require.True(t, all(from("[2001:db8::1]:1")))
	require.False(t, all(from("@")), "no address")
	require.False(t, core.Must(server.ClientIP{}.In())(from("1.2.3.4:1")), "no networks")
	unix := core.Must(server.ClientIP{TrustUnix: true, Header: "Forwarded"}.In(prefixes("192.0.2.0/24")...))
	require.True(t, unix(with("@", "Forwarded", "for=192.0.2.1")))
}

func TestClientIP_InKeepsItsNetworks(t *testing.T) {
	t.Parallel()
	networks := prefixes("192.0.2.0/24")
	in := core.Must(server.ClientIP{}.In(networks...))
	networks[0] = netip.MustParsePrefix("::/0")
	require.True(t, in(from("192.0.2.1:1")))
}

func TestClientIP_InReportsAllThatIsWrong(t *testing.T) {
	t.Parallel()
	in, err := server.ClientIP{Hops: -1, IPv4Bits: 33}.In(netip.Prefix{}, netip.MustParsePrefix("::/0"), netip.PrefixFrom(netip.MustParseAddr("1.2.3.4"), 33))
	require.Nil(t, in)
	var bad *core.ConfigError
	require.ErrorAs(t, err, &bad)
	for _, want := range []string{
		"server.ClientIP.Hops = -1: must be", "server.ClientIP.IPv4Bits = 33: must be",
		"server.ClientIP.In[0] = invalid Prefix: must be a network, as netip.MustParsePrefix returns it", "server.ClientIP.In[2] = invalid Prefix: must be",
	} {
		require.ErrorContains(t, err, want)
	}
	require.Len(t, strings.Split(err.Error(), "\n"), 4)
}

// Not parallel: it counts allocations.
func TestMatchers_DoNotAllocate(t *testing.T) {
	r := from("10.0.0.1:80", "192.0.2.1")
	r.Header.Set("X-API-Key", strings.Repeat("k", 256))
	trusting := server.ClientIP{Trusted: prefixes("10.0.0.0/8")}
	for name, tt := range map[string]struct {
		match func(*http.Request) bool
		want  bool
		most  uint64
	}{
		"In":     {core.Must(trusting.In(prefixes("2001:db8::/32", "192.0.2.0/24")...)), true, runs / 100},
		"not in": {core.Must(trusting.In(prefixes("2001:db8::/32")...)), false, runs / 100},
		// Under the race detector a sync.Pool loses one buffer in four.
		"KeyIn":      {server.KeyIn(server.ByHeader("X-API-Key"), "k", r.Header.Get("X-API-Key")), true, runs / 2},
		"key not in": {server.KeyIn(server.ByHeader("X-API-Key"), "k"), false, runs / 2},
	} {
		got := allocations(t, func() {
			if tt.match(r) != tt.want {
				t.Fatal(name)
			}
		})
		require.Less(t, got, tt.most, name)
	}
}

func BenchmarkKeyIn(b *testing.B) {
	in := server.KeyIn(server.ByHeader("X-API-Key"), "k1", "k2", "k3")
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		r := get("/", "X-API-Key", "k3")
		for pb.Next() {
			_ = in(r)
		}
	})
}
