package retry_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/plugins/retry"
)

// A step is how a scripted transport answers one attempt.
type step func(req *http.Request) (*http.Response, error)

// script is a transport that answers as it is told; the last step is repeated.
// It keeps the contract of RoundTripper: it reads and closes the request body.
type script struct {
	steps []step

	mu        sync.Mutex
	seen      []seen
	responses []*body
}

// seen is what a script saw of one attempt.
type seen struct {
	req  *http.Request
	body string
	at   time.Time
}

func (s *script) RoundTrip(req *http.Request) (*http.Response, error) {
	s.mu.Lock()
	n := len(s.seen)
	s.seen = append(s.seen, seen{req: req, at: time.Now()})
	s.mu.Unlock()
	if req.Body != nil {
		defer func() { _ = req.Body.Close() }()
		b, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		s.seen[n].body = string(b)
	}
	resp, err := s.steps[min(n, len(s.steps)-1)](req)
	if resp != nil {
		if b, ok := resp.Body.(*body); ok {
			s.responses = append(s.responses, b)
		}
	}
	return resp, err
}

// waits are the times between the attempts.
func (s *script) waits() (all []time.Duration) {
	for i := range s.seen[1:] {
		all = append(all, s.seen[i+1].at.Sub(s.seen[i].at))
	}
	return all
}

// closes is how often each response body was closed.
func (s *script) closes() (all []int32) {
	for _, b := range s.responses {
		all = append(all, b.closes.Load())
	}
	return all
}

// status answers with a status, a body of that size and header lines
// "Name: value".
func status(code, size int, header ...string) step {
	return func(req *http.Request) (*http.Response, error) {
		resp := &http.Response{
			StatusCode: code, Status: http.StatusText(code), Header: http.Header{}, Request: req,
			Body: &body{Reader: bytes.NewReader(make([]byte, size))}, ContentLength: int64(size),
		}
		for _, h := range header {
			name, value, _ := strings.Cut(h, ": ")
			resp.Header.Add(name, value)
		}
		return resp, nil
	}
}

func fails(err error) step {
	return func(*http.Request) (*http.Response, error) { return nil, err }
}

// body is a request or response body that counts.
type body struct {
	io.Reader
	read   atomic.Int64
	closes atomic.Int32
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	b.read.Add(int64(n))
	return n, err
}

func (b *body) Close() error { b.closes.Add(1); return nil }

func text(s string) *body { return &body{Reader: strings.NewReader(s)} }

// do sends a request through the plugin, closes what it gets, and sees that the
// request stays what it was.
func do(t *testing.T, p *retry.Plugin, base http.RoundTripper, req *http.Request) (*http.Response, error) {
	t.Helper()
	before, header, url := *req, req.Header.Clone(), *req.URL
	resp, err := p.Transport(base).RoundTrip(req)
	after := *req
	require.Equal(t, before.GetBody == nil, after.GetBody == nil)
	before.GetBody, after.GetBody = nil, nil // functions cannot be compared
	require.True(t, reflect.DeepEqual(before, after), "the caller's request was changed")
	require.Equal(t, header, req.Header)
	require.Equal(t, url, *req.URL)
	if resp != nil {
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
	}
	return resp, err
}

func get(t *testing.T) *http.Request {
	t.Helper()
	return request(t.Context(), http.MethodGet, nil)
}

func request(ctx context.Context, method string, body io.Reader) *http.Request {
	return core.Must(http.NewRequestWithContext(ctx, method, "http://example.test/x?y=1", body))
}

// quick is a plugin without waits.
func quick(c retry.Config) *retry.Plugin {
	if c.Backoff == nil && c.Delay == nil {
		c.Backoff = backoff.None{}
	}
	return core.Must(retry.New(c))
}

// doubling are the waits of Kresil: half a second, doubled, no jitter.
func doubling() backoff.Strategy {
	return backoff.Exponential{Initial: 500 * time.Millisecond, Max: time.Minute}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
