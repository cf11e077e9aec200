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

// conn is one end of a connection in memory.
type conn struct {
	in, out       *pipe
	local, remote net.Addr
}

func newConns(client, server net.Addr) (*conn, *conn) {
	a, b := &pipe{changed: make(chan struct{})}, &pipe{changed: make(chan struct{})}
	return &conn{in: a, out: b, local: client, remote: server}, &conn{in: b, out: a, local: server, remote: client}
}

func (c *conn) LocalAddr() net.Addr  { return c.local }
func (c *conn) RemoteAddr() net.Addr { return c.remote }

func (c *conn) SetDeadline(t time.Time) error {
	_ = c.SetReadDeadline(t)
	return c.SetWriteDeadline(t)
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.in.change(func() { c.in.readBy = t })
	return nil
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	c.out.change(func() { c.out.writeBy = t })
	return nil
}

func (c *conn) Close() error {
	c.end(io.EOF, &net.OpError{Op: "write", Net: "tcp", Err: os.NewSyscallError("write", syscall.EPIPE)})
	return nil
}

// end ends the connection for this side, and for the other one with these errors,
// where it has not ended before.
func (c *conn) end(read, write error) {
	c.out.change(func() {
		c.out.writeErr = &net.OpError{Op: "write", Net: "tcp", Err: net.ErrClosed}
		if c.out.readErr == nil {
			c.out.readErr = read
		}
	})
	c.in.change(func() {
		c.in.readErr, c.in.buf = &net.OpError{Op: "read", Net: "tcp", Err: net.ErrClosed}, nil
		if c.in.writeErr == nil {
			c.in.writeErr = write
		}
	})
}

func (c *conn) Read(p []byte) (n int, err error) {
	q := c.in
	err = q.wait(&q.readBy, "read", func() (done bool, err error) {
		switch {
		case len(q.buf) > 0:
			n = copy(p, q.buf)
			q.buf = q.buf[n:]
			return true, nil
		case q.readErr != nil:
			return true, q.readErr
		}
		return len(p) == 0, nil
	})
	return n, err
}

func (c *conn) Write(p []byte) (n int, err error) {
	q := c.out
	err = q.wait(&q.writeBy, "write", func() (done bool, err error) {
		if q.writeErr != nil {
			return true, q.writeErr
		}
		m := min(len(p)-n, pipeSize-len(q.buf))
		q.buf = append(q.buf, p[n:n+m]...)
		if n += m; m > 0 {
			q.announce() // also where there is more to write
		}
		return n == len(p), nil
	})
	return n, err
}

const pipeSize = 64 << 10

// pipe is one direction of a connection. Its mutex is never held during a wait: a
// goroutine that waits for a mutex is not durably blocked in a bubble.
type pipe struct {
	mu       sync.Mutex
	buf      []byte
	readErr  error // for the reader, once buf is empty
	writeErr error
	readBy   time.Time
	writeBy  time.Time
	changed  chan struct{} // closed and replaced when anything above changes
}

func (q *pipe) announce() {
	close(q.changed)
	q.changed = make(chan struct{})
}

func (q *pipe) change(f func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	f()
	q.announce()
}

// wait tries until that is done, or the deadline is over.
func (q *pipe) wait(by *time.Time, op string, try func() (done bool, err error)) error {
	for {
		q.mu.Lock()
		end := *by
		if !end.IsZero() && !time.Now().Before(end) {
			q.mu.Unlock()
			return &net.OpError{Op: op, Net: "tcp", Err: os.ErrDeadlineExceeded}
		}
		if done, err := try(); done {
			q.announce()
			q.mu.Unlock()
			return err
		}
		changed := q.changed
		q.mu.Unlock()
		left := time.Duration(-1)
		if !end.IsZero() {
			left = max(time.Until(end), 0)
		}
		pause(left, changed, nil)
	}
}
