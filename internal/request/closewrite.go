package request

import (
	"fmt"
	"io"
	"net/http"
)

// CloseWrite ends the writing direction of an upgraded connection, if it has that method.
// The error is that of net/http otherwise.
func CloseWrite(w io.Writer) error {
	if c, ok := w.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return fmt.Errorf("CloseWrite: %w", http.ErrNotSupported)
}
