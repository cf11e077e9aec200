package client

import (
	"fmt"
	"io"
	"net/http"
	"sync"
)

// OnBodyEnd makes f run once: when the body of a response is closed, is read to its end, or fails; or at once if there is none. It replaces
// resp.Body. The body of an upgraded connection (101) stays an [io.Writer], and ends only when it is closed, since one direction can end
// before the other. f runs in the goroutine that has just read or closed the body.
func OnBodyEnd(resp *http.Response, f func()) {
	if resp == nil || resp.Body == nil || resp.Body == http.NoBody {
		f()
		return
	}
	b := &endingBody{resp.Body, sync.OnceFunc(f)}
	if w, ok := resp.Body.(io.Writer); ok {
		resp.Body = &conn{Reader: b.ReadCloser, Writer: w, Closer: b}
		return
	}
	resp.Body = b
}

type endingBody struct {
	io.ReadCloser
	end func()
}

func (b *endingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.end()
	}
	return n, err
}

func (b *endingBody) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}

// A conn is the body of an upgraded connection: the end of one direction does not end it.
type conn struct {
	io.Reader
	io.Writer
	io.Closer
}

// CloseWrite ends the writing direction, for a proxy, if the connection supports it.
func (c *conn) CloseWrite() error {
	if w, ok := c.Writer.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return fmt.Errorf("CloseWrite: %w", http.ErrNotSupported)
}
