package client

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"
)

// trailers gives each attempt a Trailer of its own. A caller may fill req.Trailer while
// the body is read, and must not after the body's end, so that is when its values are
// copied. The transport of an old attempt may still read its own copy then.
type trailers struct {
	req      *http.Request
	declared http.Header // of req, before a body was read
	mu       sync.Mutex  // bodies of GetBody fill the same map: one is read at a time
}

// attach makes attempt, which has the body, send its trailers. It must be called before
// the body is read. A transport may get more bodies by GetBody, for repetitions of its own.
func (t *trailers) attach(attempt *http.Request) {
	attempt.Trailer = t.declared.Clone()
	attempt.Body = t.wrap(attempt.Body, attempt)
	if getBody := attempt.GetBody; getBody != nil {
		attempt.GetBody = func() (io.ReadCloser, error) {
			body, err := getBody()
			return t.wrap(body, attempt), err
		}
	}
}

func (t *trailers) wrap(body io.ReadCloser, to *http.Request) io.ReadCloser {
	if body == nil {
		return nil
	}
	return &trailedBody{ReadCloser: body, trailers: t, to: to}
}

type trailedBody struct {
	io.ReadCloser
	trailers *trailers
	to       *http.Request
}

func (b *trailedBody) Read(p []byte) (int, error) {
	t := b.trailers
	if _, streamed := b.ReadCloser.(*streamReader); !streamed { // that locks by itself, and an old reader must not hold up a new one
		t.mu.Lock()
		defer t.mu.Unlock()
	}
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		for name, values := range t.req.Trailer {
			if b.to.Trailer != nil && !slices.Equal(values, t.declared[name]) { // otherwise a plugin may have set it
				b.to.Trailer[name] = slices.Clone(values)
			}
		}
	}
	return n, err
}
