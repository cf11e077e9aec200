package request

import (
	"fmt"
	"io"
	"net/http"
)

// A Conn is the body of an upgraded connection. Its Reader is that of the connection: the
// end of one direction does not end it.
type Conn struct {
	io.Reader
	io.Writer
	io.Closer
}

// CloseWrite ends the writing direction, if the Writer has that method, for a proxy. The
// error is that of net/http otherwise.
func (c *Conn) CloseWrite() error {
	if w, ok := c.Writer.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return fmt.Errorf("CloseWrite: %w", http.ErrNotSupported)
}
