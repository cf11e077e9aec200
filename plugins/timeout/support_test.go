package timeout_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/plugins/timeout"
	"github.com/gresil/gresil/resiltest"
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

// after answers with the text after d, unless the request's context ends before.
func after(d time.Duration, text string) *resiltest.Script {
	return resiltest.NewScript(resiltest.Reply{Delay: d, Body: text})
}

// trickle answers with a body of n bytes, each of which takes a second.
func trickle(n int) *resiltest.Script {
	return resiltest.NewScript(resiltest.Reply{Body: strings.Repeat("x", n), Pace: time.Second})
}

// contextOf is the context of the last request.
func contextOf(s *resiltest.Script) context.Context {
	return s.Attempts()[s.Calls()-1].Request.Context()
}

func answer(req *http.Request, body io.ReadCloser) *http.Response {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: body, Request: req, ContentLength: -1}
}

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
	timed, ok := err.(interface{ Timeout() bool })
	require.True(t, ok && timed.Timeout())
}

// serve runs h on an in-memory network, in a bubble, and returns a client for it, and
// what dials it.
func serve(t *testing.T, h http.Handler) (*http.Client, func(ctx context.Context, network, addr string) (net.Conn, error)) {
	t.Helper()
	tr := resiltest.Serve(t, resiltest.NewNetwork().Listen(""), h).Transport()
	return &http.Client{Transport: tr}, tr.DialContext
}
