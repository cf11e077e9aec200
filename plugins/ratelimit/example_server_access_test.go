package ratelimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/plugins/ratelimit"
	"github.com/gresil/gresil/server"
)

// The monitoring passes whatever it does, and who is blocked is not even limited.
func ExampleServerConfig_allowAndBlock() {
	limits := core.Must(ratelimit.NewServer(ratelimit.ServerConfig{
		Limit: ratelimit.PerHour(1),
		Allow: func(r *http.Request) bool { return strings.HasPrefix(r.RemoteAddr, "10.") },
		Block: func(r *http.Request) bool { return r.UserAgent() == "scraper" },
	}))
	handler := limits.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for _, from := range []struct{ addr, agent string }{{"10.0.0.9:1", ""}, {"10.0.0.9:1", ""}, {"192.0.2.1:1", ""}, {"192.0.2.1:1", ""}, {"192.0.2.1:1", "scraper"}} {
		r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
		r.RemoteAddr = from.addr
		r.Header.Set("User-Agent", from.agent)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Println(from.addr, w.Code, w.Header()["X-Rate-Limited"])
	}
	fmt.Printf("%+v\n", limits.Stats())
	// Output:
	// 10.0.0.9:1 200 [false]
	// 10.0.0.9:1 200 [false]
	// 192.0.2.1:1 200 [false]
	// 192.0.2.1:1 429 [true]
	// 192.0.2.1:1 403 []
	// {Allowed:1 Rejected:1 AllowListed:2 Blocked:1 Shadowed:0 Failed:0}
}

// What a limit would do, before it does it.
func ExampleServerConfig_shadow() {
	limits := core.Must(ratelimit.NewServer(ratelimit.ServerConfig{
		Limit:  ratelimit.PerHour(1),
		Shadow: true,
	}))
	handler := limits.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for range 2 {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
		fmt.Println(w.Code, len(w.Header()))
	}
	fmt.Println(limits.Stats().Shadowed)
	// Output:
	// 200 0
	// 200 0
	// 1
}

// Requests wait for their turn rather than being refused.
func ExampleServerConfig_wait() {
	limits := core.Must(ratelimit.NewServer(ratelimit.ServerConfig{
		Limit:   ratelimit.TokenBucket(1, time.Millisecond, 1),
		MaxWait: time.Minute,
	}))
	handler := limits.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", http.NoBody))
		})
	}
	all.Wait()
	fmt.Printf("%+v\n", limits.Stats())
	// Output: {Allowed:5 Rejected:0 AllowListed:0 Blocked:0 Shadowed:0 Failed:0}
}

// A client has many addresses: each /64 has its permits, and so have the /56, the
// /48 (of IPv4: the /24) that it belongs to. A request takes of all or of none.
func ExampleLayer() {
	network := func(v4, v6 int) server.Key {
		return func(r *http.Request) (string, bool) {
			addr, bits := server.Proxies{}.Addr(r), v4
			if addr.Is6() {
				bits = v6
			}
			network, err := addr.Prefix(bits)
			return network.String(), err == nil
		}
	}
	limits := core.Must(ratelimit.NewServer(ratelimit.ServerConfig{
		Name:  "client",
		Limit: ratelimit.PerHour(1), // for each IPv4 address, and each /64
		Layers: []ratelimit.Layer{
			{Name: "site", Key: network(24, 56), Limit: ratelimit.PerHour(2)},
			{Name: "provider", Key: network(16, 48), Limit: ratelimit.PerHour(3)},
			{Name: "all", Limit: ratelimit.PerHour(100)},
		},
		OnRejected: func(w http.ResponseWriter, r *http.Request, rej server.Rejection) {
			addr := netip.MustParseAddrPort(r.RemoteAddr).Addr()
			fmt.Println(addr, "refused by", rej.Policies)
			w.WriteHeader(http.StatusTooManyRequests)
		},
	}))
	handler := limits.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		fmt.Println(netip.MustParseAddrPort(r.RemoteAddr).Addr())
	}))
	for _, addr := range []string{
		"[2001:db8:1:100::1]:1", "[2001:db8:1:100::2]:1", "[2001:db8:1:101::1]:1", "[2001:db8:1:102::1]:1", "[2001:db8:1:200::1]:1", "[2001:db8:1:300::1]:1",
		"192.0.2.1:1", "192.0.2.2:1", "192.0.2.3:1",
	} {
		r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
		r.RemoteAddr = addr
		handler.ServeHTTP(httptest.NewRecorder(), r)
	}
	// Output:
	// 2001:db8:1:100::1
	// 2001:db8:1:100::2 refused by [client]
	// 2001:db8:1:101::1
	// 2001:db8:1:102::1 refused by [site]
	// 2001:db8:1:200::1
	// 2001:db8:1:300::1 refused by [provider]
	// 192.0.2.1
	// 192.0.2.2
	// 192.0.2.3 refused by [site]
}
