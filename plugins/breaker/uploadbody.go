package breaker

import (
	"io"
	"sync/atomic"
)

// An uploadBody is the body of a request to a handler. A transport of the handler can use
// it in another goroutine.
type uploadBody struct {
	io.ReadCloser
	closed, failed atomic.Bool
}

// Read notes an error, unless the handler has closed the body.
func (b *uploadBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF && !b.closed.Load() {
		b.failed.Store(true)
	}
	return n, err
}

func (b *uploadBody) Close() error {
	b.closed.Store(true)
	return b.ReadCloser.Close()
}
