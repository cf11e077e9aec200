package redistest

import (
	"bytes"
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A Proxy stands between clients and a server, and fails as networks do: it delays, cuts, or swallows the bytes of their
// connections. Its faults can be changed at any time, by any goroutine.
type Proxy struct {
	Addr string // HOST:PORT, where it listens

	l    net.Listener
	wg   sync.WaitGroup
	done <-chan struct{}
	stop func()

	mu    sync.Mutex
	to    string
	cut   bool
	hush  bool
	delay time.Duration
	links map[*link]struct{}
}

// A link is a connection and the one that it is passed on to.
type link struct {
	ends [2]net.Conn
	lost bool // some of its bytes
}

func (l *link) close() {
	for _, c := range l.ends {
		_ = c.Close()
	}
}

// StartProxy starts a proxy before an address, which ends with the test.
func StartProxy(tb testing.TB, to string) *Proxy {
	tb.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(context.Background(), "tcp", "127.0.0.1:0")
	require.NoError(tb, err)
	ctx, cancel := context.WithCancel(context.Background())
	p := &Proxy{Addr: l.Addr().String(), to: to, l: l, done: ctx.Done(), stop: cancel, links: map[*link]struct{}{}}
	p.wg.Go(p.accept)
	tb.Cleanup(p.Close)
	return p
}

// Delay delays bytes that are sent from now on, in each direction.
func (p *Proxy) Delay(d time.Duration) { p.change(func() { p.delay = d }) }

// Cut closes all connections, and new ones as soon as they are made.
func (p *Proxy) Cut() {
	p.change(func() {
		p.cut = true
		for l := range p.links {
			l.close()
		}
	})
}

// Point passes new connections on to another address. Those that are open stay as they are.
func (p *Proxy) Point(to string) { p.change(func() { p.to = to }) }

// Swallow leaves connections open, and takes new ones, but nothing arrives any more.
func (p *Proxy) Swallow() { p.change(func() { p.hush = true }) }

// Resume passes everything on again, at once. It closes connections on which something was lost.
func (p *Proxy) Resume() {
	p.change(func() {
		p.cut, p.hush, p.delay = false, false, 0
		for l := range p.links {
			if l.lost {
				l.close()
			}
		}
	})
}

// Close ends the proxy and its connections, and waits until nothing of it runs.
func (p *Proxy) Close() {
	p.Cut()
	_ = p.l.Close()
	p.stop()
	p.wg.Wait()
}

func (p *Proxy) change(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

func (p *Proxy) accept() {
	for {
		conn, err := p.l.Accept()
		if err != nil {
			return
		}
		p.wg.Go(func() { p.serve(conn) })
	}
}

func (p *Proxy) serve(client net.Conn) {
	var d net.Dialer
	var to string
	p.change(func() { to = p.to })
	server, err := d.DialContext(context.Background(), "tcp", to)
	if err != nil {
		_ = client.Close()
		return
	}
	l := &link{ends: [2]net.Conn{client, server}}
	p.change(func() {
		if p.cut {
			l.close()
		}
		p.links[l] = struct{}{}
	})
	p.wg.Go(func() { p.pass(l, client, server) })
	p.pass(l, server, client)
	p.change(func() { delete(p.links, l) })
}

// A packet is on its way.
type packet struct {
	due  time.Time
	data []byte
}

// pass copies bytes from one end to the other, until either is closed.
func (p *Proxy) pass(l *link, from, to net.Conn) {
	way := make(chan packet, 256)
	p.wg.Go(func() {
		defer l.close()
		for pk := range way {
			if wait := time.Until(pk.due); wait > 0 {
				late := time.NewTimer(wait)
				select {
				case <-late.C:
				case <-p.done:
				}
				late.Stop()
			}
			_, _ = to.Write(pk.data) // if it is closed, so is the other end
		}
	})
	defer close(way)
	data := make([]byte, 16<<10)
	for {
		n, err := from.Read(data)
		if err != nil {
			return
		}
		var delay time.Duration
		lost := false
		p.change(func() {
			delay, lost = p.delay, p.hush
			l.lost = l.lost || lost
		})
		if !lost {
			way <- packet{time.Now().Add(delay), bytes.Clone(data[:n])}
		}
	}
}
