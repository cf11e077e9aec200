package resiltest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"

	"github.com/gresil/gresil/internal/resiltest"
)

// newT stands for the t of your test.
func newT() *printTB { return &printTB{} }

type printTB struct{ fakeTB }

func (*printTB) Errorf(format string, args ...any) {
	text, _, _ := strings.Cut(fmt.Sprintf(format, args...), "\n")
	_, _ = fmt.Fprintln(os.Stdout, "FAIL:", text)
}

func get(rt http.RoundTripper, url string) {
	resp, err := (&http.Client{Transport: rt}).Get(url)
	if err != nil {
		fmt.Println("no response, reset:", errors.Is(err, syscall.ECONNRESET))
		return
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	fmt.Printf("%s %q, reset: %t\n", resp.Status, text, errors.Is(err, syscall.ECONNRESET))
}

// As a transport it is the quickest: there is no network at all.
func ExampleScript() {
	script := resiltest.NewScript(
		resiltest.Reply{Status: 503, Body: "later"},
		resiltest.Reply{Reset: true},
		resiltest.Reply{Body: "half", Reset: true},
		resiltest.Reply{Body: "all of it"},
	)
	for range 4 {
		get(script, "http://api.test/orders")
	}
	first := script.Attempts()[0]
	fmt.Println(script.Calls(), "attempts, first", first.Request.Method, first.Request.URL, "- closed", script.Closes())
	// Output:
	// 503 Service Unavailable "later", reset: false
	// no response, reset: true
	// 200 OK "half", reset: true
	// 200 OK "all of it", reset: false
	// 4 attempts, first GET http://api.test/orders - closed [1 1 1]
}

// The same script, with the real net/http on both ends of connections in memory. In
// your test this is in synctest.Test.
func ExampleServe() {
	t := newT()
	defer t.end()
	script := resiltest.NewScript(
		resiltest.Reply{Status: 503, Body: "later"},
		resiltest.Reply{Body: "half", Reset: true},
		resiltest.Reply{Body: "all of it"},
	)
	srv := resiltest.Serve(t, resiltest.NewNetwork().Listen("api.test:80"), script)
	base := srv.Transport()
	for range 3 {
		get(base, srv.URL+"/orders")
	}
	_, total := srv.Conns()
	fmt.Println(total, "connections in all")
	// Output:
	// 503 Service Unavailable "later", reset: false
	// 200 OK "half", reset: true
	// 200 OK "all of it", reset: false
	// 2 connections in all
}

func ExampleNewServer() {
	t := newT()
	defer t.end()
	srv := resiltest.NewServer(t, resiltest.NewScript(resiltest.Reply{Status: 429, Header: http.Header{"Retry-After": {"7"}}}))
	resp, err := (&http.Client{Transport: srv.Transport()}).Get(srv.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(resp.Status, resp.Header.Get("Retry-After"), resp.Body.Close())
	// Output: 429 Too Many Requests 7 <nil>
}

// HTTP/2 without TLS.
func ExampleHTTP2() {
	t := newT()
	defer t.end()
	srv := resiltest.Serve(t, resiltest.NewNetwork().Listen(""), resiltest.NewScript(resiltest.Reply{Do: func(req *http.Request) (*http.Response, error) {
		return resiltest.NewScript(resiltest.Reply{Body: req.Proto}).RoundTrip(req)
	}}))
	tr := srv.Transport()
	tr.Protocols = resiltest.HTTP2()
	get(tr, srv.URL)
	// Output: 200 OK "HTTP/2.0", reset: false
}

// A server that takes the request and hangs up: it may have done what was asked.
func ExampleServeConn() {
	t := newT()
	defer t.end()
	srv := resiltest.ServeConn(t, resiltest.NewNetwork().Listen(""), func(c net.Conn) {
		_, _ = c.Read(make([]byte, 4096))
		_, _ = io.WriteString(c, "HTTP/1.1 200 O")
		resiltest.Reset(c)
	})
	get(srv.Transport(), srv.URL)
	// Output: no response, reset: true
}

func ExampleCount() {
	t := newT()
	c := resiltest.Count(t, resiltest.NewScript(resiltest.Reply{Body: "not read"}))
	resp, err := (&http.Client{Transport: c}).Get("http://api.test/")
	fmt.Println(resp.Status, err, c.Counts().Opened, c.Counts().Closed)
	_ = resp.Body.Close() // or the test would fail
	fmt.Println(c.Counts().Opened, c.Counts().Closed)
	t.end()
	// Output:
	// 200 OK <nil> 1 0
	// 1 1
}

func ExampleGoroutines() {
	t := newT()
	resiltest.Goroutines(t)
	forgotten := make(chan bool)
	go func() { <-forgotten }()
	close(forgotten) // or the test would fail
	fmt.Println(len(t.end()))
	// Output: 0
}

// A body to send, and what became of it.
func ExampleNewBody() {
	body := resiltest.NewBody("order")
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, "http://api.test/", body)
	if err != nil {
		fmt.Println(err)
		return
	}
	resp, err := resiltest.NewScript().RoundTrip(req)
	fmt.Println(resp.Status, err, "- read", body.BytesRead(), "closed", body.Closes())
	_ = resp.Body.Close()
	// Output: 200 OK <nil> - read 5 closed 1
}

// Several servers, each with its address.
func ExampleNetwork() {
	t := newT()
	defer t.end()
	network := resiltest.NewNetwork()
	good := resiltest.Serve(t, network.Listen("good.test:80"), resiltest.NewScript(resiltest.Reply{Body: "hello"}))
	resiltest.Serve(t, network.Listen("bad.test:80"), resiltest.NewScript(resiltest.Reply{Status: 500}))
	tr := good.Transport() // reaches all of the network, as does any with network.DialContext
	get(tr, "http://good.test/")
	get(tr, "http://bad.test/")
	_, err := (&http.Client{Transport: tr}).Get("http://none.test/")
	fmt.Println(errors.Is(err, syscall.ECONNREFUSED))
	// Output:
	// 200 OK "hello", reset: false
	// 500 Internal Server Error "", reset: false
	// true
}
