package client_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/client"
)

// stub is a plugin that writes down its name when a request passes.
type stub struct {
	name     string
	phase    client.Phase
	passed   *[]string
	closeErr error
	closed   int
}

func (s *stub) Name() string        { return s.name }
func (s *stub) Phase() client.Phase { return s.phase }
func (s *stub) Close() error        { s.closed++; return s.closeErr }
func (s *stub) Transport(next http.RoundTripper) http.RoundTripper {
	return roundTrip(func(req *http.Request) (*http.Response, error) {
		if s.passed != nil {
			*s.passed = append(*s.passed, s.name)
		}
		return next.RoundTrip(req)
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// ok is a transport that reads and closes the body, and answers 200.
func ok(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		_, _ = io.Copy(io.Discard, req.Body)
		_ = req.Body.Close()
	}
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: req}, nil
}

// body is a request or response body that counts.
type body struct {
	io.Reader
	read   atomic.Int64
	closes atomic.Int32
}

func newBody(text string) *body { return &body{Reader: strings.NewReader(text)} }

func (b *body) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	b.read.Add(int64(n))
	return n, err
}

func (b *body) Close() error { b.closes.Add(1); return nil }

// stalledBody gives what it has, and then nothing until it is closed.
type stalledBody struct {
	bytes.Reader
	closed chan struct{}
	once   sync.Once
	closes atomic.Int32
}

func newStalledBody(text string) *stalledBody {
	b := &stalledBody{closed: make(chan struct{})}
	b.Reset([]byte(text))
	return b
}

func (b *stalledBody) Read(p []byte) (int, error) {
	if n, err := b.Reader.Read(p); err == nil {
		return n, nil
	}
	<-b.closed
	return 0, errors.New("closed")
}

func (b *stalledBody) Close() error {
	b.closes.Add(1)
	b.once.Do(func() { close(b.closed) })
	return nil
}

func request(t *testing.T, method string, body io.Reader) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://example.test/x?y=1", body)
	require.NoError(t, err)
	return req
}

func readAll(t *testing.T, r io.Reader) string {
	t.Helper()
	b, err := io.ReadAll(r)
	require.NoError(t, err)
	return string(b)
}
