package breaker

import (
	"context"
	"io"
	"sync"
	"time"
)

// An uploadBody is the body of a request to a handler. A transport of the handler can use
// it in another goroutine.
type uploadBody struct {
	io.ReadCloser
	ctx    context.Context //nolint:containedctx // of the request
	length int64           // according to the request; 0 or less if it is unknown

	mu     sync.Mutex
	first  time.Time // the start of the first Read
	since  time.Time // the start of the Read that runs, or ran when the body was closed
	closed time.Time
	waited time.Duration // in Reads before
	read   int64
	ended  bool
	failed bool // see broken
}

// Read observes a Read, unless the handler has closed the body or ctx has ended.
func (b *uploadBody) Read(p []byte) (int, error) {
	observed := b.begin()
	n, err := b.ReadCloser.Read(p)
	if observed {
		b.end(n, err)
	}
	return n, err
}

func (b *uploadBody) begin() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed.IsZero() || b.ctx.Err() != nil {
		return false
	}
	b.since = time.Now()
	if b.first.IsZero() {
		b.first = b.since
	}
	return true
}

func (b *uploadBody) end(n int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed.IsZero() {
		return
	}
	b.waited += time.Since(b.since)
	b.since = time.Time{}
	b.read += int64(n)
	b.ended = err == io.EOF || b.length > 0 && b.read >= b.length            //nolint:errorlint // as io.Reader has it
	b.failed = b.failed || err != nil && err != io.EOF || b.ctx.Err() != nil //nolint:errorlint // the same
}

func (b *uploadBody) Close() error {
	b.mu.Lock()
	if b.closed.IsZero() {
		b.closed = time.Now()
	}
	b.mu.Unlock()
	return b.ReadCloser.Close()
}

// broken reports whether a Read failed, or the context ended while it ran.
func (b *uploadBody) broken() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failed
}

// slow reports whether the body is not read to its end, Reads took at least a time, and
// one runs or they took half of the time or more since the first.
func (b *uploadBody) slow(least time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.first.IsZero() || b.ended {
		return false
	}
	until, waited, runs := b.closed, b.waited, !b.since.IsZero()
	if until.IsZero() {
		until = time.Now()
	}
	if runs {
		waited += until.Sub(b.since)
	}
	return waited >= least && (runs || waited > 0 && waited >= until.Sub(b.first)/2)
}
