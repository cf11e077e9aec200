package server_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/server"
)

func show(key server.Key, r *http.Request) {
	k, ok := key(nil, r)
	fmt.Printf("%q %v\n", k, ok)
}

// A header is believed only when it comes from a proxy of your own.
func ExampleByClientIP() {
	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	r.RemoteAddr = "10.0.0.1:4711"
	r.Header.Set("X-Forwarded-For", "1.1.1.1, 203.0.113.9")

	show(server.ByClientIP(), r)
	show(server.ByClientIP(netip.MustParsePrefix("10.0.0.0/8")), r)

	r.RemoteAddr = "[2001:db8:1:2:aaaa::1]:4711"
	show(server.ByClientIP(), r)

	r.RemoteAddr = "@" // a unix socket: no IP, no key
	show(server.ByClientIP(), r)
	// Output:
	// "10.0.0.1" true
	// "203.0.113.9" true
	// "2001:db8:1:2::/64" true
	// "" false
}

// Behind two proxies whose addresses change.
func ExampleClientIP() {
	key := core.Must(server.ClientIP{
		Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
		Hops:    2,
	}.Key())
	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	r.RemoteAddr = "10.0.0.1:4711"
	r.Header.Set("X-Forwarded-For", "1.1.1.1, 203.0.113.9, 198.51.100.3")
	show(key, r)
	// Output: "203.0.113.9" true
}

// Behind a proxy that writes Forwarded (RFC 7239) and connects by a unix socket.
// What the client itself wrote into it is further left.
func ExampleClientIP_forwarded() {
	key := core.Must(server.ClientIP{TrustUnix: true, Header: "Forwarded"}.Key())
	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	r.RemoteAddr = "@"
	r.Header.Set("Forwarded", `for=1.1.1.1, for="[2001:db8:1:2::7]:4711";proto=https`)
	show(key, r)
	r.Header.Set("Forwarded", "for=unknown")
	show(key, r)
	// Output:
	// "2001:db8:1:2::/64" true
	// "" false
}

// An office that is let in, but for one of its machines.
func ExampleClientIP_In() {
	ip := server.ClientIP{Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
	allow := core.Must(ip.In(netip.MustParsePrefix("203.0.113.0/24")))
	block := core.Must(ip.In(netip.MustParsePrefix("203.0.113.9/32")))
	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	r.RemoteAddr = "10.0.0.1:4711"
	for _, client := range []string{"203.0.113.8", "203.0.113.9", "198.51.100.7"} {
		r.Header.Set("X-Forwarded-For", client)
		fmt.Println(client, allow(r), block(r))
	}

	_, err := ip.In(netip.Prefix{})
	fmt.Println(err)
	// Output:
	// 203.0.113.8 true false
	// 203.0.113.9 true true
	// 198.51.100.7 false false
	// server.ClientIP.In[0] = invalid Prefix: must be a network, as netip.MustParsePrefix returns it
}

func ExampleKeyIn() {
	partners := server.KeyIn(server.ByHeader("X-API-Key"), "acme", "globex")
	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	fmt.Println(partners(r))
	r.Header.Set("X-API-Key", "acme")
	fmt.Println(partners(r))
	// Output:
	// false
	// true
}

// An API key when there is one, else the client's IP. The key tells which of
// them it is.
func ExampleFirstOf() {
	key := server.FirstOf(server.ByHeader("X-API-Key"), server.ByClientIP())
	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	show(key, r)
	r.Header.Set("X-API-Key", "192.0.2.1")
	show(key, r)
	// Output:
	// "1:192.0.2.1" true
	// "0:192.0.2.1" true
}

// Each tenant has a bucket for each route.
func ExampleKeys() {
	key := server.Keys(server.ByHeader("X-Tenant"), server.ByRoute())
	mux := http.NewServeMux()
	mux.HandleFunc("GET /users/{id}", func(_ http.ResponseWriter, r *http.Request) { show(key, r) })

	r := httptest.NewRequest(http.MethodGet, "/users/7", http.NoBody)
	r.Header.Set("X-Tenant", "acme")
	mux.ServeHTTP(httptest.NewRecorder(), r)
	r.Header.Del("X-Tenant")
	mux.ServeHTTP(httptest.NewRecorder(), r)
	// Output:
	// "4:acme15:GET /users/{id}" true
	// "" false
}

func ExampleByFunc() {
	type userKey struct{}
	_ = server.ByFunc(func(r *http.Request) string {
		user, _ := r.Context().Value(userKey{}).(string) // put there by what authenticates
		return user
	})
	show(server.ByFunc(func(r *http.Request) string { return r.Host }), httptest.NewRequest(http.MethodGet, "/", http.NoBody))
	// Output: "example.com" true
}
