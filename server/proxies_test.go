package server_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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

// with returns a request with the lines of one field.
func with(remoteAddr, field string, lines ...string) *http.Request {
	return &http.Request{RemoteAddr: remoteAddr, Header: http.Header{field: lines}}
}

func TestClientIP(t *testing.T) {
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
		{"[fe80::1%eth0]:80", "fe80::1"},
		{"fe80::2%eth1", "fe80::2"},
		{"[febf:1::2]:80", "febf:1::2"},
		{"[fec0::1]:80", "fec0::/64"},
		{"[fd12:3456:789a:1::5]:80", "fd12:3456:789a:1::/64"},
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
		require.Equal(t, tt.want, keyOf(server.ClientIP, from(tt.remoteAddr)), tt.remoteAddr)
		require.Equal(t, tt.want, keyOf(server.ClientIP, from(tt.remoteAddr, "203.0.113.9")), "a forged header changes nothing: %s", tt.remoteAddr)
	}
}

func TestProxies_XForwardedFor(t *testing.T) {
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
		{"IPv6 with a zone", proxy, []string{"fe80::1%eth0"}, "fe80::1"},
		{"another spelling of a trusted address", proxy, []string{"203.0.113.9, ::ffff:10.0.0.2"}, "203.0.113.9"},
		{"trusted IPv6 with a zone", proxy, []string{"203.0.113.9, fd00::2%x"}, "203.0.113.9"},
		{"peer in another spelling", "[::ffff:10.0.0.1]:999", []string{"203.0.113.9"}, "203.0.113.9"},
		{"client behind a NAT64", proxy, []string{"64:ff9b::203.0.113.9"}, "203.0.113.9"},
		{"proxies behind a NAT64", "[64:ff9b::10.0.0.1]:999", []string{"203.0.113.9, 64:ff9b::10.0.0.2"}, "203.0.113.9"},
		{"forged 6to4 peer", "[2002:a00:1::1]:999", []string{"203.0.113.9"}, "2002:a00:1::/64"},
		{"untrusted peer", "198.51.100.7:1", []string{"203.0.113.9"}, "198.51.100.7"},
		{"untrusted peer in another spelling", "[::ffff:198.51.100.7]:1", []string{"203.0.113.9"}, "198.51.100.7"},
		{"an obfuscated port", proxy, []string{"203.0.113.9:_p"}, "10.0.0.1"},
		{"an element of Forwarded", proxy, []string{"for=203.0.113.9"}, "10.0.0.1"},
		{"a comma in quotes separates", proxy, []string{`"1.1.1.1,203.0.113.9`}, "203.0.113.9"},
		{"unix socket is not trusted", "@", []string{"203.0.113.9"}, "(none)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for name, key := range map[string]server.Key{
				"plain":  server.Proxies{Trusted: prefixes("10.0.0.0/8", "fd00::/8")}.ClientIP,
				"mapped": server.Proxies{Trusted: prefixes("::ffff:10.0.0.0/104", "fd00::/8")}.ClientIP,
				"named":  server.Proxies{Trusted: append(prefixes("10.0.0.0/8", "fd00::/8"), netip.Prefix{}), Header: "x-forwarded-for"}.ClientIP,
			} {
				require.Equal(t, tt.want, keyOf(key, from(tt.remoteAddr, tt.xff...)), name)
			}
		})
	}
}

func TestProxies_Hops(t *testing.T) {
	t.Parallel()
	key := server.Proxies{Trusted: prefixes("10.0.0.0/8"), Hops: 2}.ClientIP
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

func TestProxies_Header(t *testing.T) {
	t.Parallel()
	key := server.Proxies{Trusted: prefixes("10.0.0.0/8"), Header: "cf-connecting-ip"}.ClientIP
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
func TestProxies_UnixSocket(t *testing.T) {
	t.Parallel()
	unix := func(p server.Proxies) server.Key { p.TrustUnix = true; return p.ClientIP }
	trusted := prefixes("10.0.0.0/8")
	for _, tt := range []struct {
		name         string
		key          server.Key
		remoteAddr   string
		field, value string
		want         string
	}{
		{"unnamed", unix(server.Proxies{}), "@", "X-Forwarded-For", "1.1.1.1, 203.0.113.9", "203.0.113.9"},
		{"empty", unix(server.Proxies{}), "", "X-Forwarded-For", "1.1.1.1, 203.0.113.9", "203.0.113.9"},
		{"abstract", unix(server.Proxies{}), "@nginx", "X-Forwarded-For", "1.1.1.1, 203.0.113.9", "203.0.113.9"},
		{"path", unix(server.Proxies{}), "/run/app.sock", "X-Forwarded-For", "1.1.1.1, 203.0.113.9", "203.0.113.9"},
		{"relative path", unix(server.Proxies{}), "run/app.sock", "X-Forwarded-For", "203.0.113.9", "203.0.113.9"},
		{"behind a proxy of a trusted network", unix(server.Proxies{Trusted: trusted}), "@", "X-Forwarded-For", "203.0.113.9, 10.0.0.2", "203.0.113.9"},
		{"all trusted: the leftmost", unix(server.Proxies{Trusted: trusted}), "@", "X-Forwarded-For", "10.0.0.3, 10.0.0.2", "10.0.0.3"},
		{"hops", unix(server.Proxies{Hops: 2}), "@", "X-Forwarded-For", "1.1.1.1, 203.0.113.9, 198.51.100.3", "203.0.113.9"},
		{"one address", unix(server.Proxies{Header: "X-Real-IP"}), "@", "X-Real-Ip", "203.0.113.9", "203.0.113.9"},
		{"no header", unix(server.Proxies{}), "@", "Forwarded", "for=203.0.113.9", "(none)"},
		{"garbage", unix(server.Proxies{}), "@", "X-Forwarded-For", "203.0.113.9, unknown", "(none)"},
		{"too few hops", unix(server.Proxies{Hops: 2}), "@", "X-Forwarded-For", "203.0.113.9", "(none)"},
		{"a peer with an IP is not one", unix(server.Proxies{}), "198.51.100.7:1", "X-Forwarded-For", "203.0.113.9", "198.51.100.7"},
		{"a host name is not one", unix(server.Proxies{}), "example.com:80", "X-Forwarded-For", "203.0.113.9", "(none)"},
		{"nor what is almost an address", unix(server.Proxies{}), "192.0.2.1:http", "X-Forwarded-For", "203.0.113.9", "(none)"},
		{"not trusted", server.Proxies{Trusted: prefixes("0.0.0.0/0", "::/0")}.ClientIP, "@", "X-Forwarded-For", "203.0.113.9", "(none)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, keyOf(tt.key, with(tt.remoteAddr, tt.field, tt.value)))
		})
	}
}

// What net/http really has as RemoteAddr of a unix socket.
func TestProxies_RealUnixSocket(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "ip") //nolint:usetesting // on macOS, the path of t.TempDir is too long for a socket
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	li, err := net.Listen("unix", dir+"/s")
	require.NoError(t, err)
	key := server.Proxies{TrustUnix: true}.ClientIP
	srv := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, keyOf(key, r)+" "+keyOf(server.ClientIP, r))
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

func TestProxies_RefuseForwarded(t *testing.T) {
	t.Parallel()
	p := server.Proxies{Trusted: prefixes("10.0.0.0/8"), Header: "forwarded"}
	for name, f := range map[string]func(){
		"ClientIP": func() { p.ClientIP(from("192.0.2.1:1")) },
		"Addr":     func() { p.Addr(from("192.0.2.1:1")) },
		"In":       func() { p.In() },
	} {
		require.PanicsWithError(t, "server.Proxies.Header = Forwarded: must be X-Forwarded-For, or a field with one address: RFC 7239 is not supported", f, name)
	}
}

func TestProxies_Addr(t *testing.T) {
	t.Parallel()
	p := server.Proxies{Trusted: prefixes("10.0.0.0/8")}
	require.Equal(t, "2001:db8::7", p.Addr(from("10.0.0.1:1", "2001:db8::7")).String())
	require.Equal(t, "64:ff9b::c000:201", p.Addr(from("[64:ff9b::192.0.2.1]:1")).String(), "the whole address")
	require.False(t, p.Addr(from("@", "203.0.113.9")).IsValid())
}

func TestProxies_In(t *testing.T) {
	t.Parallel()
	p := server.Proxies{Trusted: prefixes("10.0.0.0/8")}
	in := p.In(prefixes("192.0.2.0/24", "::ffff:198.51.100.0/120", "2001:db8:0:1::/64", "2001:db8:0:2::7/128")...)
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
	translated := server.Proxies{}.In(prefixes("64:ff9b::/96")...)
	require.True(t, translated(from("[64:ff9b::192.0.2.1]:1")))
	require.False(t, translated(from("192.0.2.1:1")), "not all of IPv4")
	all := server.Proxies{}.In(prefixes("0.0.0.0/0", "::/0")...)
	require.True(t, all(from("1.2.3.4:1")))
	require.True(t, all(from("[2001:db8::1]:1")))
	require.False(t, all(from("@")), "no address")
	require.False(t, server.Proxies{}.In()(from("1.2.3.4:1")), "no networks")
	unix := server.Proxies{TrustUnix: true, Header: "X-Real-IP"}.In(prefixes("192.0.2.0/24")...)
	require.True(t, unix(with("@", "X-Real-Ip", "192.0.2.1")))
}

func TestProxies_InKeepsItsNetworks(t *testing.T) {
	t.Parallel()
	networks := prefixes("192.0.2.0/24")
	in := server.Proxies{}.In(networks...)
	networks[0] = netip.MustParsePrefix("::/0")
	require.True(t, in(from("192.0.2.1:1")))
}
