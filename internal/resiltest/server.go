package resiltest

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// A Server is a server for one test. It ends with the test.
type Server struct {
	URL   string       // http:// and the address
	Open  atomic.Int64 // connections
	Total atomic.Int64 // connections so far

	tb testing.TB
	li net.Listener
}

// Serve serves h on the listener, which it closes: HTTP/1, and HTTP/2 without TLS to clients that begin with it. At the end of the
// test it ends the contexts of all requests and closes all connections. In a bubble, a handler that goes on then fails the test.
func Serve(tb testing.TB, li net.Listener, h http.Handler) *Server {
	tb.Helper()
	s := &Server{tb: tb, li: li, URL: "http://" + strings.TrimSuffix(li.Addr().String(), ":80")}
	ctx, cancel := context.WithCancel(context.Background())
	both := HTTP2()
	both.SetHTTP1(true)
	srv := &http.Server{ //nolint:gosec // it is for tests, and its clients are
		Handler:     h,
		Protocols:   both,
		ErrorLog:    log.New(io.Discard, "", 0),
		BaseContext: func(net.Listener) context.Context { return ctx },
		ConnState: func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				s.Total.Add(1)
				s.Open.Add(1)
			case http.StateClosed, http.StateHijacked:
				s.Open.Add(-1)
			case http.StateActive, http.StateIdle:
			}
		},
	}
	tb.Cleanup(func() { cancel(); _ = srv.Close() })
	go func() { _ = srv.Serve(li) }()
	return s
}

// HTTP2 is HTTP/2 without TLS, for the Protocols of the [Server.Transport].
func HTTP2() *http.Protocols {
	var p http.Protocols
	p.SetUnencryptedHTTP2(true)
	return &p
}

// Transport returns a new transport with its own connections, for HTTP/1. Set its fields before its first request. Its idle connections
// are closed at the end of the test.
func (s *Server) Transport() *http.Transport {
	tr := &http.Transport{}
	if n, ok := s.li.(*Network); ok {
		tr.DialContext = n.DialContext
	}
	s.tb.Cleanup(tr.CloseIdleConnections)
	return tr
}
