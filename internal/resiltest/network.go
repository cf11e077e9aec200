package resiltest

import (
	"cmp"
	"context"
	"net"
	"os"
	"sync"
	"syscall"
)

// A Network is a network in memory. Its connections behave like those of TCP: a write
// is done when it is in a buffer of 64 KiB, deadlines work, and they can be reset.
// In a bubble, a goroutine that waits for it is durably blocked.
type Network struct {
	mu        sync.Mutex
	listeners map[string]*Listener
}

// NewNetwork returns a network without listeners.
func NewNetwork() *Network { return &Network{listeners: map[string]*Listener{}} }

// A Listener accepts the connections to its address.
type Listener struct {
	network *Network
	addr    string
	conns   chan net.Conn
	done    chan struct{}
}

// Listen listens on an address, as "api.test:80". If addr is empty, the listener gets
// the connections to all addresses without a listener. It panics if the address has a
// listener.
func (n *Network) Listen(addr string) *Listener {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listeners[addr] != nil {
		panic("resiltest: address in use: " + addr)
	}
	l := &Listener{network: n, addr: addr, conns: make(chan net.Conn), done: make(chan struct{})}
	n.listeners[addr] = l
	return l
}

// DialContext fits http.Transport. Without a listener the connection is refused.
func (n *Network) DialContext(ctx context.Context, _, addr string) (net.Conn, error) {
	n.mu.Lock()
	l := cmp.Or(n.listeners[addr], n.listeners[""])
	n.mu.Unlock()
	err := context.Cause(ctx)
	if l != nil && err == nil {
		client, server := newConns(&net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1024}, address(addr))
		select {
		case l.conns <- server:
			return client, nil
		case <-l.done:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	if err == nil {
		err = os.NewSyscallError("connect", syscall.ECONNREFUSED)
	}
	return nil, opError("dial", err)
}

// Accept waits for the next connection.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, opError("accept", net.ErrClosed)
	}
}

// Close closes the listener and frees its address. Accepted connections stay open.
func (l *Listener) Close() error {
	l.network.mu.Lock()
	defer l.network.mu.Unlock()
	if l.network.listeners[l.addr] == l {
		delete(l.network.listeners, l.addr)
		close(l.done)
	}
	return nil
}

// Addr returns the address, or "server.test:80" if it is empty.
func (l *Listener) Addr() net.Addr { return cmp.Or(address(l.addr), "server.test:80") }

type address string

func (address) Network() string  { return "tcp" }
func (a address) String() string { return string(a) }
