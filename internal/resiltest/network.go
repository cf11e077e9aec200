package resiltest

import (
	"context"
	"net"
	"os"
	"sync"
	"syscall"
)

// A Network is a network in memory. It is also its only listener, which gets the connections to all addresses. Its connections behave
// like those of TCP, without deadlines of writes: a write is done when it is in a buffer of 64 KiB, and they can be reset. In a bubble, a
// goroutine that waits for it is durably blocked.
type Network struct {
	conns chan net.Conn
	done  chan struct{}
	close func()
}

// NewNetwork returns a network.
func NewNetwork() *Network {
	done := make(chan struct{})
	return &Network{conns: make(chan net.Conn), done: done, close: sync.OnceFunc(func() { close(done) })}
}

// DialContext fits http.Transport. After Close the connection is refused.
func (n *Network) DialContext(ctx context.Context, _, addr string) (net.Conn, error) {
	if ctx.Err() != nil {
		return nil, opError("dial", context.Cause(ctx))
	}
	client, server := newConns(&net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1024}, address(addr))
	select {
	case n.conns <- server:
		return client, nil
	case <-n.done:
		return nil, opError("dial", os.NewSyscallError("connect", syscall.ECONNREFUSED))
	case <-ctx.Done():
		return nil, opError("dial", context.Cause(ctx))
	}
}

// Accept waits for the next connection.
func (n *Network) Accept() (net.Conn, error) {
	select {
	case c := <-n.conns:
		return c, nil
	case <-n.done:
		return nil, opError("accept", net.ErrClosed)
	}
}

// Close closes the listener. Accepted connections stay open.
func (n *Network) Close() error { n.close(); return nil }

// Addr returns "server.test:80", one of its addresses.
func (n *Network) Addr() net.Addr { return address("server.test:80") }

type address string

func (address) Network() string  { return "tcp" }
func (a address) String() string { return string(a) }
