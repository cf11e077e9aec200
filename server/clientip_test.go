package server_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/server"
)

func prefixes(s ...string) []netip.Prefix {
	p := make([]netip.Prefix, len(s))
	for i := range s {
		p[i] = netip.MustParsePrefix(s[i])
	}
	return p
}

func from(remoteAddr string, xff ...string) *http.Request {
	return &http.Request{RemoteAddr: remoteAddr, Header: http.Header{"X-Forwarded-For": xff}}
}

func TestByClientIP_RemoteAddr(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ remoteAddr, want string }{
		{"192.0.2.1:1234", "192.0.2.1"},
		{"192.0.2.1", "192.0.2.1"},
		{"[2001:db8:1234:5678:9:a:b:c]:1234", "2001:db8:1234:5678::/64"},
		{"[2001:db8:1234:5678::1]:1", "2001:db8:1234:5678::/64"},
		{"[2001:db8:1234:5679::1]:1", "2001:db8:1234:5679::/64"},
		{"2001:db8::1", "2001:db8::/64"},
		{"[::ffff:1.2.3.4]:80", "1.2.3.4"},
		{"[::ffff:9.9.9.9]:80", "9.9.9.9"},
		{"[64:ff9b::192.0.2.1]:80", "192.0.2.1"},
		{"[64:ff9b::198.51.100.7]:80", "198.51.100.7"},
		{"[64:ff9b::10.0.0.1]:80", "10.0.0.1"},
		{"[64:ff9b:0:0:0:1:c000:201]:80", "64:ff9b::/64"},
		{"[64:ff9b:1::192.0.2.1]:80", "64:ff9b:1::c000:201"},
		{"[64:ff9b:1:c000:2:100::]:80", "64:ff9b:1:c000:2:100::"},
		{"[64:ff9b:2::192.0.2.1]:80", "64:ff9b:2::/64"},
		{"[::ffff:0:192.0.2.1]:80", "192.0.2.1"},
		{"[::192.0.2.1]:80", "192.0.2.1"},
		{"[::1]:80", "::/64"},
		{"[::]:80", "::/64"},
		{"[2002:c000:201::1]:80", "192.0.2.1"},
		{"[2002:c000:201:ffff::1]:80", "192.0.2.1"},
		{"[2002:a00:1::1]:80", "2002:a00:1::/64"},
		{"[2002:7f00:1::1]:80", "2002:7f00:1::/64"},
		{"[2001:0:4136:e378:8000:63bf:3fff:fdfe]:80", "192.0.2.1"},
		{"[2001:0:4136:e378:8000:63bf:80ff:fffe]:80", "2001:0:4136:e378::/64"},
		{"[2001:db8::5efe:192.0.2.1]:80", "2001:db8::/64"},
		{"[2001:db8::200:5efe:192.0.2.1]:80", "2001:db8::/64"},
		{"[fe80::1%eth0]:80", "fe80::/64"},
		{"fe80::1%eth1", "fe80::/64"},
		{"@", "(none)"},
		{"@app", "(none)"},
		{"/run/app.sock", "(none)"},
		{"192.0.2.1:http", "(none)"},
		{"192.0.2.1:_p", "(none)"},
		{"192.0.2.1%eth0:80", "(none)"},
		{"[::1", "(none)"},
		{"example.com:80", "(none)"},
		{"", "(none)"},
	} {
		require.Equal(t, tt.want, keyOf(server.ByClientIP(), from(tt.remoteAddr)), tt.remoteAddr)
		require.Equal(t, tt.want, keyOf(server.ByClientIP(), from(tt.remoteAddr, "203.0.113.9")), "a forged header changes nothing: %s", tt.remoteAddr)
	}
}

func TestOneBucketPerNetwork(t *testing.T) {
	t.Parallel()
	key := core.Must(server.ClientIP{IPv4Bits: 24, IPv6Bits: 56}.Key())
	require.Equal(t, "192.168.1.0/24", keyOf(key, from("192.168.1.100:1")))
	require.Equal(t, keyOf(key, from("192.168.1.100:1")), keyOf(key, from("[::ffff:192.168.1.7]:1")))
	require.Equal(t, "2001:db8:1234:5600::/56", keyOf(key, from("[2001:db8:1234:5678::1]:1")))
	require.Equal(t, "192.168.1.0/24", keyOf(key, from("[64:ff9b::192.168.1.7]:1")))
	whole := core.Must(server.ClientIP{IPv4Bits: 32, IPv6Bits: 128}.Key())
	require.Equal(t, "2001:db8::1", keyOf(whole, from("[2001:db8::1]:1")))
	require.NotEqual(t, keyOf(server.ByClientIP(), from("[::ffff:1.2.3.4]:1")), keyOf(server.ByClientIP(), from("[::ffff:9.9.9.9]:1")))
	require.Equal(t, keyOf(server.ByClientIP(), from("[::ffff:1.2.3.4]:1")), keyOf(server.ByClientIP(), from("1.2.3.4:1")))
}

func TestByClientIP_XForwardedFor(t *testing.T) {
	t.Parallel()
	const proxy = "10.0.0.1:999"
	for _, tt := range []struct {
		name, remoteAddr string
		xff              []string
		want             string
	}{
		{"client behind one proxy", proxy, []string{"203.0.113.9"}, "203.0.113.9"},
		{"client behind two", proxy, []string{"203.0.113.9, 10.0.0.2"}, "203.0.113.9"},
		{"what the client wrote itself is left of it", proxy, []string{"1.1.1.1, 203.0.113.9, 10.0.0.2"}, "203.0.113.9"},
		{"all lines are one list", proxy, []string{"1.1.1.1", "203.0.113.9", "10.0.0.2"}, "203.0.113.9"},
		{"the last line alone decides nothing", proxy, []string{"203.0.113.9", "10.0.0.3, 10.0.0.2"}, "203.0.113.9"},
		{"all trusted: the leftmost", proxy, []string{"10.0.0.5, 10.0.0.2"}, "10.0.0.5"},
		{"no header: the peer", proxy, nil, "10.0.0.1"},
		{"empty header: the peer", proxy, []string{"", " , ,"}, "10.0.0.1"},
		{"empty elements", proxy, []string{"203.0.113.9,, ", ",10.0.0.2,"}, "203.0.113.9"},
		{"garbage: the peer", proxy, []string{"203.0.113.9, unknown"}, "10.0.0.1"},
		{"garbage behind a trusted hop: the peer", proxy, []string{"203.0.113.9, <script>, 10.0.0.2"}, "10.0.0.1"},
		{"garbage left of the client", proxy, []string{"<script>, 203.0.113.9"}, "203.0.113.9"},
		{"with a port", proxy, []string{"203.0.113.9:4711"}, "203.0.113.9"},
		{"IPv6 with a port", proxy, []string{"[2001:db8::1]:4711"}, "2001:db8::/64"},
		{"IPv6 with a zone", proxy, []string{"fe80::1%eth0"}, "fe80::/64"},
		{"another spelling of a trusted address", proxy, []string{"203.0.113.9, ::ffff:10.0.0.2"}, "203.0.113.9"},
		{"trusted IPv6 with a zone", proxy, []string{"203.0.113.9, fd00::2%x"}, "203.0.113.9"},
		{"peer in another spelling", "[::ffff:10.0.0.1]:999", []string{"203.0.113.9"}, "203.0.113.9"},
		{"client behind a NAT64", proxy, []string{"64:ff9b::203.0.113.9"}, "203.0.113.9"},
		{"proxies behind a NAT64", "[64:ff9b::10.0.0.1]:999", []string{"203.0.113.9, 64:ff9b::10.0.0.2"}, "203.0.113.9"},
		{"forged 6to4 peer", "[2002:a00:1::1]:999", []string{"203.0.113.9"}, "2002:a00:1::/64"},
		{"untrusted peer", "198.51.100.7:1", []string{"203.0.113.9"}, "198.51.100.7"},
		{"untrusted peer in another spelling", "[::ffff:198.51.100.7]:1", []string{"203.0.113.9"}, "198.51.100.7"},
		{"an obfuscated port is of Forwarded", proxy, []string{"203.0.113.9:_p"}, "10.0.0.1"},
		{"an element of Forwarded", proxy, []string{"for=203.0.113.9"}, "10.0.0.1"},
		{"a comma in quotes separates", proxy, []string{`"1.1.1.1,203.0.113.9`}, "203.0.113.9"},
		{"unix socket is not trusted", "@", []string{"203.0.113.9"}, "(none)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for name, key := range map[string]server.Key{
				"plain":  server.ByClientIP(prefixes("10.0.0.0/8", "fd00::/8")...),
				"mapped": server.ByClientIP(prefixes("::ffff:10.0.0.0/104", "fd00::/8")...),
				"named":  core.Must(server.ClientIP{Trusted: prefixes("10.0.0.0/8", "fd00::/8"), Header: "x-forwarded-for"}.Key()),
			} {
				require.Equal(t, tt.want, keyOf(key, from(tt.remoteAddr, tt.xff...)), name)
			}
		})
	}
}

func TestClientIP_Hops(t *testing.T) {
	t.Parallel()
	key := core.Must(server.ClientIP{Trusted: prefixes("10.0.0.0/8"), Hops: 2}.Key())
	for _, tt := range []struct {
		name, remoteAddr string
		xff              []string
		want             string
	}{
		{"second from the right", "10.0.0.1:1", []string{"1.1.1.1, 203.0.113.9, 198.51.100.3"}, "203.0.113.9"},
		{"over two lines", "10.0.0.1:1", []string{"1.1.1.1, 203.0.113.9", "198.51.100.3"}, "203.0.113.9"},
		{"empty elements do not count", "10.0.0.1:1", []string{"1.1.1.1, 203.0.113.9,,", ",198.51.100.3,"}, "203.0.113.9"},
		{"trusted or not, it is the client", "10.0.0.1:1", []string{"1.1.1.1, 10.9.9.9, 198.51.100.3"}, "10.9.9.9"},
		{"too few: the peer", "10.0.0.1:1", []string{"203.0.113.9"}, "10.0.0.1"},
		{"garbage: the peer", "10.0.0.1:1", []string{"1.1.1.1, unknown, 198.51.100.3"}, "10.0.0.1"},
		{"untrusted peer", "198.51.100.7:1", []string{"1.1.1.1, 203.0.113.9, 198.51.100.3"}, "198.51.100.7"},
	} {
		require.Equal(t, tt.want, keyOf(key, from(tt.remoteAddr, tt.xff...)), tt.name)
	}
}

func TestClientIP_Header(t *testing.T) {
	t.Parallel()
	key := core.Must(server.ClientIP{Trusted: prefixes("10.0.0.0/8"), Header: "cf-connecting-ip"}.Key())
	with := func(remoteAddr string, values ...string) *http.Request {
		return &http.Request{RemoteAddr: remoteAddr, Header: http.Header{"Cf-Connecting-Ip": values, "X-Forwarded-For": {"1.1.1.1"}, "Forwarded": {"for=1.1.1.1"}}}
	}
	require.Equal(t, "203.0.113.9", keyOf(key, with("10.0.0.1:1", "203.0.113.9")))
	require.Equal(t, "203.0.113.9", keyOf(key, with("10.0.0.1:1", "9.9.9.9", " 203.0.113.9 ")), "the last value")
	require.Equal(t, "10.0.0.1", keyOf(key, with("10.0.0.1:1", "203.0.113.9", "unknown")), "garbage")
	require.Equal(t, "10.0.0.1", keyOf(key, with("10.0.0.1:1", "203.0.113.9, 9.9.9.9")), "a list is garbage")
	require.Equal(t, "10.0.0.1", keyOf(key, with("10.0.0.1:1")))
	require.Equal(t, "198.51.100.7", keyOf(key, with("198.51.100.7:1", "203.0.113.9")), "untrusted peer")
}

// The header of a unix socket's peer is read when it is trusted; where it says
// nothing there is no address, and no key that all could share.
func TestClientIP_UnixSocket(t *testing.T) {
	t.Parallel()
	unix := func(c server.ClientIP) server.Key { c.TrustUnix = true; return core.Must(c.Key()) }
	trusted := prefixes("10.0.0.0/8")
	for _, tt := range []struct {
		name         string
		key          server.Key
		remoteAddr   string
		field, value string
		want         string
	}{
		{"unnamed", unix(server.ClientIP{}), "@", "X-Forwarded-For", "1.1.1.1, 203.0.113.9", "203.0.113.9"},
		{"empty", unix(server.ClientIP{}), "", "X-Forwarded-For", "1.1.1.1, 203.0.113.9", "203.0.113.9"},
		{"abstract", unix(server.ClientIP{}), "@nginx", "X-Forwarded-For", "1.1.1.1, 203.0.113.9", "203.0.113.9"},
		{"path", unix(server.ClientIP{}), "/run/app.sock", "X-Forwarded-For", "1.1.1.1, 203.0.113.9", "203.0.113.9"},
		{"relative path", unix(server.ClientIP{}), "run/app.sock", "X-Forwarded-For", "203.0.113.9", "203.0.113.9"},
		{"behind a proxy of a trusted network", unix(server.ClientIP{Trusted: trusted}), "@", "X-Forwarded-For", "203.0.113.9, 10.0.0.2", "203.0.113.9"},
		{"all trusted: the leftmost", unix(server.ClientIP{Trusted: trusted}), "@", "X-Forwarded-For", "10.0.0.3, 10.0.0.2", "10.0.0.3"},
		{"hops", unix(server.ClientIP{Hops: 2}), "@", "X-Forwarded-For", "1.1.1.1, 203.0.113.9, 198.51.100.3", "203.0.113.9"},
		{"Forwarded", unix(server.ClientIP{Header: "Forwarded"}), "@", "Forwarded", `for=1.1.1.1, for="203.0.113.9:80"`, "203.0.113.9"},
		{"one address", unix(server.ClientIP{Header: "X-Real-IP"}), "@", "X-Real-Ip", "203.0.113.9", "203.0.113.9"},
		{"no header", unix(server.ClientIP{}), "@", "Forwarded", "for=203.0.113.9", "(none)"},
		{"garbage", unix(server.ClientIP{}), "@", "X-Forwarded-For", "203.0.113.9, unknown", "(none)"},
		{"too few hops", unix(server.ClientIP{Hops: 2}), "@", "X-Forwarded-For", "203.0.113.9", "(none)"},
		{"a peer with an IP is not one", unix(server.ClientIP{}), "198.51.100.7:1", "X-Forwarded-For", "203.0.113.9", "198.51.100.7"},
		{"a host name is not one", unix(server.ClientIP{}), "example.com:80", "X-Forwarded-For", "203.0.113.9", "(none)"},
		{"nor what is almost an address", unix(server.ClientIP{}), "192.0.2.1:http", "X-Forwarded-For", "203.0.113.9", "(none)"},
		{"not trusted", core.Must(server.ClientIP{Trusted: prefixes("0.0.0.0/0", "::/0")}.Key()), "@", "X-Forwarded-For", "203.0.113.9", "(none)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, keyOf(tt.key, with(tt.remoteAddr, tt.field, tt.value)))
			got, found := tt.key([]byte("kept "), with(tt.remoteAddr, tt.field, tt.value))
			require.Equal(t, found, tt.want != "(none)")
			if !found {
				require.Equal(t, "kept ", string(got))
			}
		})
	}
}

// What net/http really has as RemoteAddr of a unix socket.
func TestClientIP_RealUnixSocket(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "ip") //nolint:usetesting // on macOS, the path of t.TempDir is too long for a socket
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	li, err := net.Listen("unix", dir+"/s")
	require.NoError(t, err)
	key := core.Must(server.ClientIP{TrustUnix: true}.Key())
	srv := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, keyOf(key, r)+" "+keyOf(server.ByClientIP(), r))
	})}
	go func() { _ = srv.Serve(li) }()
	t.Cleanup(func() { _ = srv.Close() })
	for name, local := range map[string]*net.UnixAddr{"unnamed": nil, "named": {Net: "unix", Name: dir + "/c"}} {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) {
			return net.DialUnix("unix", local, li.Addr().(*net.UnixAddr))
		}}}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://unix/", http.NoBody)
		require.NoError(t, err)
		r.Header.Set("X-Forwarded-For", "203.0.113.9")
		resp, err := client.Do(r)
		require.NoError(t, err, name)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, "203.0.113.9 (none)", string(body), name)
	}
}

func TestByClientIP_InvalidPrefixTrustsNobody(t *testing.T) {
	t.Parallel()
	require.Equal(t, "10.0.0.1", keyOf(server.ByClientIP(netip.Prefix{}), from("10.0.0.1:1", "203.0.113.9")))
}

func TestClientIP_Key(t *testing.T) {
	t.Parallel()
	for _, c := range []server.ClientIP{
		{},
		{TrustUnix: true},
		{TrustUnix: true, Header: "Forwarded", Hops: 1},
		{TrustUnix: true, Header: "X-Real-IP"},
		{Trusted: prefixes("10.0.0.0/8"), Header: "forwarded", Hops: 2},
		{Trusted: prefixes("::/0"), Hops: 1, Header: "X-Forwarded-For", IPv4Bits: 32, IPv6Bits: 128},
	} {
		_, err := c.Key()
		require.NoError(t, err)
	}
	trusted := prefixes("10.0.0.0/8")
	for name, tt := range map[string]struct {
		c    server.ClientIP
		want []string
	}{
		"prefix":               {server.ClientIP{Trusted: []netip.Prefix{trusted[0], {}}}, []string{"server.ClientIP.Trusted[1] = invalid Prefix: must be a network"}},
		"header alone":         {server.ClientIP{Header: "X-Real-IP"}, []string{"server.ClientIP.Header = X-Real-IP: needs Trusted or TrustUnix"}},
		"forwarded alone":      {server.ClientIP{Header: "Forwarded"}, []string{"server.ClientIP.Header = Forwarded: needs Trusted or TrustUnix"}},
		"header and hops":      {server.ClientIP{Header: "Forwarded", Hops: 1}, []string{"Header = Forwarded: needs", "Hops = 1: needs"}},
		"everything":           {server.ClientIP{Trusted: []netip.Prefix{{}}, Header: "X-Real-IP", Hops: 1, IPv4Bits: -1, IPv6Bits: -1}, []string{"Trusted[0]", "Hops", "IPv4Bits", "IPv6Bits"}},
		"negative hops":        {server.ClientIP{Hops: -1}, []string{"server.ClientIP.Hops = -1: must be >= 0"}},
		"hops alone":           {server.ClientIP{Hops: 1}, []string{"server.ClientIP.Hops = 1: needs Trusted"}},
		"hops of a header":     {server.ClientIP{Hops: 1, Header: "X-Real-IP", Trusted: trusted}, []string{"server.ClientIP.Hops = 1: is for X-Forwarded-For"}},
		"bits too many":        {server.ClientIP{IPv4Bits: 33, IPv6Bits: 129}, []string{"server.ClientIP.IPv4Bits = 33", "server.ClientIP.IPv6Bits = 129"}},
		"bits negative, and h": {server.ClientIP{IPv4Bits: -1, IPv6Bits: -1, Hops: -2}, []string{"IPv4Bits = -1: must be 0 to 32 (0 means 32)", "IPv6Bits = -1: must be 0 to 128 (0 means 64)", "Hops = -2"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := tt.c.Key()
			require.ErrorIs(t, err, core.ErrConfig)
			for _, want := range tt.want {
				require.ErrorContains(t, err, want)
			}
			require.Len(t, strings.Split(err.Error(), "\n"), len(tt.want))
		})
	}
}

// Not parallel: it counts allocations.
func TestKeys_DoNotAllocate(t *testing.T) {
	dst := make([]byte, 0, 256)
	proxied := get("/", "X-Forwarded-For", "1.1.1.1, 2001:db8::7, 10.0.0.2", "X-API-Key", "k")
	proxied.RemoteAddr = "10.0.0.1:80"
	proxied.Pattern = "/users/{id}"
	for name, tt := range map[string]struct {
		key server.Key
		r   *http.Request
	}{
		"Forwarded": {
			core.Must(server.ClientIP{Trusted: prefixes("10.0.0.0/8"), Header: "Forwarded"}.Key()),
			with("10.0.0.1:80", "Forwarded", "for=1.1.1.1", `by="_a,\"b";for="[2001:db8::7]:4711";proto=https`, "for=10.0.0.2;by=_x"),
		},
		"Forwarded, hops": {
			core.Must(server.ClientIP{TrustUnix: true, Header: "Forwarded", Hops: 2}.Key()),
			with("@", "Forwarded", `for="203.0.113.9:_p", for=unknown`),
		},
		"one address":     {core.Must(server.ClientIP{TrustUnix: true, Header: "X-Real-IP"}.Key()), with("@", "X-Real-Ip", "203.0.113.9")},
		"IPv4":            {server.ByClientIP(), from("192.0.2.1:1234")},
		"IPv6":            {server.ByClientIP(), from("[2001:db8:1:2:3:4:5:6]:1234")},
		"IPv6 with zone":  {server.ByClientIP(), from("[fe80::1%eth0]:1234")},
		"X-Forwarded-For": {server.ByClientIP(prefixes("10.0.0.0/8")...), proxied},
		"composed":        {server.Keys(server.FirstOf(server.ByHeader("X-API-Key"), server.ByClientIP()), server.ByRoute()), proxied},
	} {
		got := allocations(t, func() {
			if _, found := tt.key(dst, tt.r); !found {
				t.Fatal("no key")
			}
		})
		require.Less(t, got, uint64(runs/100), name)
	}
}

func BenchmarkClientIP_Header(b *testing.B) {
	for field, line := range map[string]string{"X-Forwarded-For": "203.0.113.9, 10.0.0.2", "Forwarded": `for=203.0.113.9;proto=https, for="10.0.0.2:80"`} {
		b.Run(field, func(b *testing.B) {
			b.ReportAllocs()
			key := core.Must(server.ClientIP{Trusted: prefixes("10.0.0.0/8"), Header: field}.Key())
			r, dst := with("10.0.0.1:1", field, line), make([]byte, 0, 64)
			for b.Loop() {
				_, _ = key(dst, r)
			}
		})
	}
}

func BenchmarkByClientIP(b *testing.B) {
	for _, addr := range []string{"192.0.2.1:1234", "[2001:db8:1:2:3:4:5:6]:1234"} {
		b.Run(addr, func(b *testing.B) {
			b.ReportAllocs()
			key, r, dst := server.ByClientIP(), from(addr), make([]byte, 0, 64)
			for b.Loop() {
				_, _ = key(dst, r)
			}
		})
	}
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
	walk := server.ByClientIP(trusted...)
	hops := core.Must(server.ClientIP{Trusted: trusted, Hops: 1}.Key())
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
