package resiltest

import (
	"errors"
	"io"
	"strings"
	"sync/atomic"
)

var errClosedBody = errors.New("http: read on closed response body") // as net/http says it

// A Body is the body of a request or a response that counts its reads and closes.
// Like a body of net/http, it can be closed during a read, and more than once, and
// cannot be read after it was closed.
type Body struct {
	next    io.ReadCloser
	read    atomic.Int64
	closes  atomic.Int32
	onClose func() // once; can be nil
}

// NewBody returns a body with that text.
func NewBody(text string) *Body { return WrapBody(io.NopCloser(strings.NewReader(text))) }

// WrapBody returns a Body that counts the reads and closes of b.
func WrapBody(b io.ReadCloser) *Body { return &Body{next: b} }

// Read reads.
func (b *Body) Read(p []byte) (int, error) {
	if b.closes.Load() > 0 {
		return 0, errClosedBody
	}
	n, err := b.next.Read(p)
	b.read.Add(int64(n))
	return n, err
}

// Close closes the wrapped body, the first time.
func (b *Body) Close() error {
	if b.closes.Add(1) > 1 {
		return nil
	}
	if b.onClose != nil {
		defer b.onClose()
	}
	return b.next.Close()
}

// BytesRead returns the number of bytes that were read.
func (b *Body) BytesRead() int64 { return b.read.Load() }

// Closes returns the number of calls of Close.
func (b *Body) Closes() int { return int(b.closes.Load()) }
