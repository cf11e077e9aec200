package resiltest

import (
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
	in, out       *pipe
	local, remote net.Addr
}

func newConns(client, server net.Addr) (*conn, *conn) {
	a, b := newPipe(), newPipe()
	return &conn{in: a, out: b, local: client, remote: server}, &conn{in: b, out: a, local: server, remote: client}
}

func (c *conn) LocalAddr() net.Addr  { return c.local }
func (c *conn) RemoteAddr() net.Addr { return c.remote }

func (c *conn) SetDeadline(t time.Time) error {
	_ = c.SetReadDeadline(t)
	return c.SetWriteDeadline(t)
}

func (c *conn) SetReadDeadline(t time.Time) error  { return c.in.until(&c.in.readBy, t) }
func (c *conn) SetWriteDeadline(t time.Time) error { return c.out.until(&c.out.writeBy, t) }

func (c *conn) Close() error {
	c.end(io.EOF, opError("write", os.NewSyscallError("write", syscall.EPIPE)))
	return nil
}

// end ends the connection for this side, and for the other one with these errors,
// where it has not ended before.
func (c *conn) end(read, write error) {
	c.out.change(func() {
		c.out.writeErr = opError("write", net.ErrClosed)
		if c.out.readErr == nil {
			c.out.readErr = read
		}
	})
	c.in.change(func() {
		c.in.readErr, c.in.buf = opError("read", net.ErrClosed), nil
		if c.in.writeErr == nil {
			c.in.writeErr = write
		}
	})
}

func (c *conn) Read(p []byte) (n int, err error) {
	q := c.in
	q.change(func() {
		for len(q.buf) == 0 && q.readErr == nil && len(p) > 0 && !over(q.readBy) {
			q.changed.Wait()
		}
		switch {
		case over(q.readBy):
			err = opError("read", os.ErrDeadlineExceeded)
		case len(q.buf) > 0:
			n = copy(p, q.buf)
			q.buf = q.buf[n:]
		default:
			err = q.readErr
		}
	})
	return n, err
}

func (c *conn) Write(p []byte) (n int, err error) {
	q := c.out
	for n < len(p) && err == nil {
		q.change(func() {
			for len(q.buf) == pipeSize && q.writeErr == nil && !over(q.writeBy) {
				q.changed.Wait()
			}
			if err = q.writeErr; over(q.writeBy) {
				err = opError("write", os.ErrDeadlineExceeded)
			}
			if err == nil {
				m := min(len(p)-n, pipeSize-len(q.buf))
				q.buf, n = append(q.buf, p[n:n+m]...), n+m
			}
		})
	}
	return n, err
}

const pipeSize = 64 << 10

// pipe is one direction of a connection.
type pipe struct {
	mu       sync.Mutex
	changed  *sync.Cond
	buf      []byte
	readErr  error // for the reader, once buf is empty
	writeErr error
	readBy   time.Time
	writeBy  time.Time
}

func newPipe() *pipe {
	q := &pipe{}
	q.changed = sync.NewCond(&q.mu)
	return q
}

func (q *pipe) change(f func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	f()
	q.changed.Broadcast()
}

// until sets one of the deadlines.
func (q *pipe) until(by *time.Time, t time.Time) error {
	q.change(func() { *by = t })
	if !t.IsZero() {
		time.AfterFunc(time.Until(t), func() { q.change(func() {}) })
	}
	return nil
}

func over(by time.Time) bool { return !by.IsZero() && !time.Now().Before(by) }
