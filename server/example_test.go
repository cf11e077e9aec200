package server_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/server"
)

// say returns a plugin that prints its name.
func say(name string, phase server.Phase) server.Plugin {
	return server.Middleware(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Print(name, ", ")
			next.ServeHTTP(w, r)
		})
	}, phase)
}

// The order of the arguments does not matter.
func ExampleNew() {
	pipeline := core.Must(server.New(say("timeout", server.Handling), say("limit", server.Admission), say("log", server.Monitoring)))
	h := pipeline.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { fmt.Println("handler") }))
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", http.NoBody))
	// Output: log, limit, timeout, handler
}

func ExampleRoute() {
	pipeline := core.Must(server.New(
		server.Route("/", say("5 s", server.Handling)),
		server.Route("POST /export", say("a minute", server.Handling)),
		say("limit", server.Admission),
	))
	h := pipeline.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { fmt.Println(r.Method, r.URL) }))
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(method, "/export", http.NoBody))
	}
	// Output:
	// limit, 5 s, GET /export
	// limit, a minute, POST /export
}

// An API key if there is one, otherwise the address of the client.
func ExampleFirstOf() {
	key := server.FirstOf(server.Header("X-API-Key"), server.ClientIP)
	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	fmt.Println(key(r))
	r.Header.Set("X-API-Key", "192.0.2.1")
	fmt.Println(key(r))
	// Output:
	// 1:192.0.2.1 true
	// 0:192.0.2.1 true
}

// A header is used only if the peer is a trusted proxy.
func ExampleProxies() {
	behind := server.Proxies{Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
	office := behind.In(netip.MustParsePrefix("203.0.113.0/24"))
	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	r.Header.Set("X-Forwarded-For", "1.1.1.1, 203.0.113.9")
	for _, peer := range []string{"10.0.0.1:4711", "198.51.100.7:4711"} {
		r.RemoteAddr = peer
		key, _ := behind.ClientIP(r)
		fmt.Println(key, office(r))
	}
	// Output:
	// 203.0.113.9 true
	// 198.51.100.7 false
}

func ExampleReject() {
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	server.Reject(w, r, server.Rejection{Status: http.StatusTooManyRequests, RetryAfter: 4200 * time.Millisecond, Policies: []string{"burst"}})
	fmt.Println(w.Code, w.Header().Get("Content-Type"), w.Header().Get("Retry-After"))
	fmt.Println(w.Body)
	// Output:
	// 429 application/problem+json 5
	// {"type":"about:blank","title":"Too Many Requests","status":429,"violated-policies":["burst"]}
}
