package resiltest

import (
	"cmp"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// reset aborts a connection, so that the peer gets "connection reset by peer". Others than those of TCP and of a [Network] are closed.
func reset(c net.Conn) {
	switch c := c.(type) {
	case *net.TCPConn:
		_ = c.SetLinger(0)
	case *conn:
		c.end(resetError("read"), resetError("write"))
	}
	_ = c.Close()
}

func opError(op string, err error) error { return &net.OpError{Op: op, Net: "tcp", Err: err} }

func resetError(op string) error { return opError(op, os.NewSyscallError(op, syscall.ECONNRESET)) }

// conn is one end of a connection in memory.
type conn struct {
	changed       *sync.Cond // of both ends, with their lock
	peer          *conn
	local, remote net.Addr

	buf               []byte // from the peer
	readErr, writeErr error  // the first once buf is empty
	readBy            time.Time
}

func newConns(client, server net.Addr) (*conn, *conn) {
	changed := sync.NewCond(&sync.Mutex{})
	a := &conn{changed: changed, local: client, remote: server}
	a.peer = &conn{changed: changed, local: server, remote: client, peer: a}
	return a, a.peer
}

func (c *conn) LocalAddr() net.Addr              { return c.local }
func (c *conn) RemoteAddr() net.Addr             { return c.remote }
func (c *conn) SetDeadline(t time.Time) error    { return c.SetReadDeadline(t) }
func (c *conn) SetWriteDeadline(time.Time) error { return os.ErrNoDeadline }

func (c *conn) SetReadDeadline(t time.Time) error {
	c.change(func() { c.readBy = t })
	if left := time.Until(t); left > 0 { // two timers that are due when they are made crash the race detector in a bubble
		time.AfterFunc(left, func() { c.change(func() {}) })
	}
	return nil
}

func (c *conn) late() bool { return !c.readBy.IsZero() && !time.Now().Before(c.readBy) }

func (c *conn) change(f func()) {
	c.changed.L.Lock()
	defer c.changed.L.Unlock()
	f()
	c.changed.Broadcast()
}

func (c *conn) Close() error {
	c.end(io.EOF, opError("write", os.NewSyscallError("write", syscall.EPIPE)))
	return nil
}

// end ends the connection for this side, and for the other one with these errors, where it has not ended before.
func (c *conn) end(read, write error) {
	c.change(func() {
		c.readErr, c.writeErr, c.buf = opError("read", net.ErrClosed), opError("write", net.ErrClosed), nil
		c.peer.readErr, c.peer.writeErr = cmp.Or(c.peer.readErr, read), cmp.Or(c.peer.writeErr, write)
	})
}

func (c *conn) Read(p []byte) (n int, err error) {
	c.change(func() {
		for len(c.buf) == 0 && c.readErr == nil && len(p) > 0 && !c.late() {
			c.changed.Wait()
		}
		switch {
		case c.late():
			err = opError("read", os.ErrDeadlineExceeded)
		case len(c.buf) > 0:
			n = copy(p, c.buf)
			c.buf = c.buf[n:]
		default:
			err = c.readErr
		}
	})
	return n, err
}

const pipeSize = 64 << 10 // bytes on their way

func (c *conn) Write(p []byte) (n int, err error) {
	to := c.peer
	for n < len(p) && err == nil {
		c.change(func() {
			for len(to.buf) == pipeSize && c.writeErr == nil {
				c.changed.Wait()
			}
			if err = c.writeErr; err == nil {
				m := min(len(p)-n, pipeSize-len(to.buf))
				to.buf, n = append(to.buf, p[n:n+m]...), n+m
			}
		})
	}
	return n, err
}
