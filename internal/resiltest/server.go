package resiltest

import (
	"context"
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
	stop       func() // stops all but the connections
	mu         sync.Mutex
	conns      map[*tracked]struct{} // open
	total      int
	busy       int // goroutines of the server that have not ended
	transports []*http.Transport
	closed     bool
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

// Serve serves h on the listener, which it closes: HTTP/1, and HTTP/2 without TLS to
// clients that begin with it. What net/http logs, such as a panic, is in the test's log.
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
		ErrorLog:    log.New(logWriter{s}, "", 0),
		BaseContext: func(net.Listener) context.Context { return ctx },
		ConnState: func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				s.running(1)
			case http.StateClosed, http.StateHijacked:
				s.running(-1)
			case http.StateActive, http.StateIdle:
			}
		},
	}
	s.stop = func() { cancel(); _ = srv.Close() }
	go func() { defer s.running(-1); _ = srv.Serve(tracker{li, s}) }()
	return s
}

// ServeConn gives each connection that the listener accepts to f, in a goroutine of
// its own, and closes it when f returns. It is for replies that net/http does not send: half a
// status line, bytes that are no HTTP, frames of HTTP/2 that refuse a stream.
func ServeConn(tb testing.TB, li net.Listener, f func(net.Conn)) *Server {
	tb.Helper()
	s := newServer(tb, li)
	s.stop = func() {}
	go func() {
		defer s.running(-1)
		for {
			c, err := tracker{li, s}.Accept()
			if err != nil {
				return
			}
			s.running(1)
			go func() {
				defer s.running(-1)
				defer func() { _ = c.Close() }()
				f(c)
			}()
		}
	}()
	return s
}

func newServer(tb testing.TB, li net.Listener) *Server {
	tb.Helper()
	s := &Server{tb: tb, li: li, URL: "http://" + strings.TrimSuffix(li.Addr().String(), ":80"), conns: map[*tracked]struct{}{}, busy: 1}
	tb.Cleanup(s.Close)
	return s
}

// HTTP2 is HTTP/2 without TLS, for the Protocols of the [Server.Transport].
func HTTP2() *http.Protocols {
	var p http.Protocols
	p.SetUnencryptedHTTP2(true)
	return &p
}

// Transport returns a new transport with its own connections, for HTTP/1. Set its
// fields before its first request. In a Network it reaches all listeners. Its idle connections are closed with the server.
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
	return len(s.conns), s.total
}

// ResetConns resets all connections that are open.
func (s *Server) ResetConns() {
	for _, c := range s.open() {
		Reset(c)
	}
}

// Close closes the listener and all connections, ends the contexts of all requests,
// and waits for the handlers. It fails the test when some do not end. It may be
// called before the end of the test, and again.
func (s *Server) Close() {
	s.tb.Helper()
	s.mu.Lock()
	again, transports := s.closed, s.transports
	s.closed = true
	s.mu.Unlock()
	_ = s.li.Close()
	for _, tr := range transports {
		tr.CloseIdleConnections()
	}
	s.stop()
	for _, c := range s.open() {
		_ = c.Close()
	}
	left := 0
	if !eventually(func() bool { s.mu.Lock(); defer s.mu.Unlock(); left = s.busy; return left == 0 }) && !again {
		s.tb.Errorf("resiltest: %d goroutines of the server have not ended: does a handler ignore its context?", left)
	}
}

// logWriter writes to the test's log, while there is one.
type logWriter struct{ s *Server }

func (w logWriter) Write(p []byte) (int, error) {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	if !w.s.closed {
		w.s.tb.Logf("%s", strings.TrimSpace(string(p)))
	}
	return len(p), nil
}

func (s *Server) running(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy += n
}

func (s *Server) open() (all []*tracked) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		all = append(all, c)
	}
	return all
}

// tracker records the connections that a listener accepts.
type tracker struct {
	net.Listener
	s *Server
}

func (l tracker) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	t := &tracked{Conn: c, s: l.s}
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	if l.s.closed {
		_ = c.Close()
		return nil, net.ErrClosed
	}
	l.s.total++
	l.s.conns[t] = struct{}{}
	return t, nil
}

type tracked struct {
	net.Conn
	s *Server
}

func (c *tracked) NetConn() net.Conn { return c.Conn }

func (c *tracked) Close() error {
	c.s.mu.Lock()
	delete(c.s.conns, c)
	c.s.mu.Unlock()
	return c.Conn.Close()
}
