package timeout_test

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

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/fakenet"
	"github.com/gresil/gresil/plugins/timeout"
)

var errBoom = errors.New("boom")

// fields lists what the joined errors name.
func fields(t *testing.T, err error) (all []string) {
	t.Helper()
	if err == nil {
		return nil
	}
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range many.Unwrap() {
			all = append(all, fields(t, e)...)
		}
		return all
	}
	var bad *core.ConfigError
	require.ErrorAs(t, err, &bad)
	return []string{bad.Field}
}

// stub is a transport made of a function.
type stub func(*http.Request) (*http.Response, error)

func (f stub) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// A spy keeps the context of the last request.
type spy struct {
	next stub
	ctx  context.Context
}

func (s *spy) RoundTrip(req *http.Request) (*http.Response, error) {
	s.ctx = req.Context()
	return s.next(req)
}

// after answers with the text after d, unless the request's context ends before.
func after(d time.Duration, text string) stub {
	return func(req *http.Request) (*http.Response, error) {
		select {
		case <-time.After(d):
			return answer(req, io.NopCloser(strings.NewReader(text))), nil
		case <-req.Context().Done():
			return nil, context.Cause(req.Context())
		}
	}
}

func answer(req *http.Request, body io.ReadCloser) *http.Response {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: body, Request: req, ContentLength: -1}
}

// trickle is a body of n bytes, each of which takes a second unless ctx ends.
type trickle struct {
	ctx    context.Context
	n      int
	closed atomic.Int32
}

func (b *trickle) Read(p []byte) (int, error) {
	if b.n == 0 {
		return 0, io.EOF
	}
	select {
	case <-time.After(time.Second):
		b.n--
		p[0] = 'x'
		return 1, nil
	case <-b.ctx.Done():
		return 0, b.ctx.Err()
	}
}

func (b *trickle) Close() error { b.closed.Add(1); return nil }

func get(t *testing.T, ctx context.Context, rt http.RoundTripper) (*http.Response, error) { //nolint:revive // t first, as in all helpers
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://example.test/", nil)
	require.NoError(t, err)
	return rt.RoundTrip(req)
}

// takes, deferred in a bubble, checks how long it took there: defer takes(t, d)().
func takes(t *testing.T, want time.Duration) func() {
	t.Helper()
	start := time.Now()
	return func() { require.Equal(t, want, time.Since(start)) }
}

// requireTimeout checks that err is a timeout in every way that callers ask.
func requireTimeout(t *testing.T, err error, name string) {
	t.Helper()
	require.ErrorIs(t, err, timeout.ErrTimeout)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, context.Canceled)
	var e *timeout.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, name, e.Name)
	net, ok := err.(interface{ Timeout() bool })
	require.True(t, ok && net.Timeout())
}

// serve runs h on an in-memory network, in a bubble, and returns a client for it.
func serve(t *testing.T, h http.Handler) (*http.Client, *fakenet.Listener) {
	t.Helper()
	li := fakenet.Listen()
	srv := &http.Server{Handler: h}
	go func() { _ = srv.Serve(li) }()
	tr := &http.Transport{DialContext: li.DialContext}
	t.Cleanup(func() {
		tr.CloseIdleConnections()
		_ = srv.Close()
		time.Sleep(time.Second) // virtual: net/http lingers
	})
	return &http.Client{Transport: tr}, li
}
