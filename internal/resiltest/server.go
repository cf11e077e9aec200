package resiltest

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// A Server is a server for one test. It ends with the test.
type Server struct {
	URL string // http:// and the address

	tb         testing.TB
	li         net.Listener
	stop       func() // stops all but the listener
	mu         sync.Mutex
	open       map[net.Conn]bool
	total      int // connections
	busy       int // goroutines of the server that have not ended
	transports []*http.Transport
}

// NewServer is [Serve] on a loopback port. It is not for bubbles.
func NewServer(tb testing.TB, h http.Handler) *Server {
	tb.Helper()
	li, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatalf("resiltest: %v", err)
	}
	return Serve(tb, li, h)
}

// Serve serves h on the listener, which it closes: HTTP/1, and HTTP/2 without TLS to clients that begin with it.
func Serve(tb testing.TB, li net.Listener, h http.Handler) *Server {
	tb.Helper()
	s := newServer(tb, li)
	ctx, cancel := context.WithCancel(context.Background())
	both := HTTP2()
	both.SetHTTP1(true)
	srv := &http.Server{ //nolint:gosec // it is for tests, and its clients are
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.running(1)
			defer s.running(-1)
			h.ServeHTTP(w, r)
		}),
		Protocols:   both,
		ErrorLog:    log.New(io.Discard, "", 0),
		BaseContext: func(net.Listener) context.Context { return ctx },
		ConnState: func(c net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				s.opened(c)
			case http.StateClosed, http.StateHijacked:
				s.ended(c)
			case http.StateActive, http.StateIdle:
			}
		},
	}
	s.stop = func() { cancel(); _ = srv.Close() }
	go func() { defer s.running(-1); _ = srv.Serve(li) }()
	return s
}

// ServeConn gives each connection that the listener accepts to f, in a goroutine of its own, and closes it when f returns. It is for
// replies that net/http does not send, such as frames of HTTP/2 that refuse a stream.
func ServeConn(tb testing.TB, li net.Listener, f func(net.Conn)) *Server {
	tb.Helper()
	s := newServer(tb, li)
	s.stop = func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for c := range s.open {
			_ = c.Close()
		}
	}
	go func() {
		defer s.running(-1)
		for {
			c, err := li.Accept()
			if err != nil {
				return
			}
			s.opened(c)
			go func() {
				defer s.ended(c)
				defer func() { _ = c.Close() }()
				f(c)
			}()
		}
	}()
	return s
}

func newServer(tb testing.TB, li net.Listener) *Server {
	tb.Helper()
	s := &Server{tb: tb, li: li, URL: "http://" + strings.TrimSuffix(li.Addr().String(), ":80"), open: map[net.Conn]bool{}, busy: 1}
	tb.Cleanup(s.close)
	return s
}

// HTTP2 is HTTP/2 without TLS, for the Protocols of the [Server.Transport].
func HTTP2() *http.Protocols {
	var p http.Protocols
	p.SetUnencryptedHTTP2(true)
	return &p
}

// Transport returns a new transport with its own connections, for HTTP/1. Set its fields before its first request. In a Network it
// reaches all listeners. Its idle connections are closed with the server.
func (s *Server) Transport() *http.Transport {
	tr := &http.Transport{}
	if li, ok := s.li.(*Listener); ok {
		tr.DialContext = li.network.DialContext
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.transports = append(s.transports, tr)
	return tr
}

// Conns returns the number of open connections, and the number of all so far.
func (s *Server) Conns() (open, total int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open), s.total
}

// close closes the listener and all connections, ends the contexts of all requests, and waits for the handlers. It fails the test
// when some do not end.
func (s *Server) close() {
	s.tb.Helper()
	_ = s.li.Close()
	s.mu.Lock()
	transports := s.transports
	s.mu.Unlock()
	for _, tr := range transports {
		tr.CloseIdleConnections()
	}
	s.stop()
	left := 0
	if !eventually(func() bool { s.mu.Lock(); defer s.mu.Unlock(); left = s.busy; return left == 0 }) {
		s.tb.Errorf("resiltest: %d goroutines of the server have not ended: does a handler ignore its context?", left)
	}
}

func (s *Server) running(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy += n
}

func (s *Server) opened(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[c], s.busy, s.total = true, s.busy+1, s.total+1
}

func (s *Server) ended(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, c)
	s.busy--
}
