package breaker_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/plugins/breaker"
)

const host = "api.example.com"

var errDown = errors.New("connection refused")

// A stub is a transport that answers what it is told to, closes request bodies,
// and counts.
type stub struct {
	status     int
	retryAfter string
	err        error
	answer     func(*http.Request) (*http.Response, error) // in place of these
	sent       atomic.Int32
}

func (s *stub) RoundTrip(req *http.Request) (*http.Response, error) {
	s.sent.Add(1)
	if s.answer != nil {
		return s.answer(req)
	}
	if req.Body != nil {
		_ = req.Body.Close()
	}
	if s.err != nil {
		return nil, s.err
	}
	resp := respond(req, s.status)
	if s.retryAfter != "" {
		resp.Header.Set("Retry-After", s.retryAfter)
	}
	return resp, nil
}

func respond(req *http.Request, status int) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("body")), Request: req}
}

// A body counts how often it is closed.
type body struct {
	io.Reader
	closed atomic.Int32
}

func (b *body) Close() error { b.closed.Add(1); return nil }

func newClient(t *testing.T, cfg breaker.ClientConfig) *breaker.Client {
	t.Helper()
	c, err := breaker.NewClient(cfg)
	require.NoError(t, err)
	return c
}

func get(ctx context.Context, rt http.RoundTripper, url string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	return rt.RoundTrip(req)
}

// send sends n requests and requires that each gets the status.
func send(t *testing.T, rt http.RoundTripper, n, status int) {
	t.Helper()
	for range n {
		resp, err := get(t.Context(), rt, "https://"+host)
		require.NoError(t, err)
		require.Equal(t, status, resp.StatusCode)
	}
}

// refused requires that a request is rejected, and returns how.
func refused(t *testing.T, rt http.RoundTripper) *breaker.OpenError {
	t.Helper()
	resp, err := get(t.Context(), rt, "https://"+host)
	require.Nil(t, resp)
	open, ok := errors.AsType[*breaker.OpenError](err)
	require.True(t, ok, "%v", err)
	return open
}

func minute() backoff.Strategy { return backoff.Constant{Wait: time.Minute} }
