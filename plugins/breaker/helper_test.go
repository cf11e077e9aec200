package breaker_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/plugins/breaker"
)

var errDown = errors.New("connection refused")

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func respond(req *http.Request, status int) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: http.NoBody, Request: req}
}

// answers is a transport that always answers so.
func answers(status int, header http.Header) http.RoundTripper {
	return roundTrip(func(req *http.Request) (*http.Response, error) {
		resp := respond(req, status)
		resp.Header = header
		return resp, nil
	})
}

// hangs never answers.
func hangs(req *http.Request) (*http.Response, error) {
	<-req.Context().Done()
	return nil, context.Cause(req.Context())
}

func newGroup(t *testing.T, cfg breaker.Config) *breaker.Group {
	t.Helper()
	if cfg.OpenDelay == nil {
		cfg.OpenDelay = backoff.Constant{Delay: time.Minute}
	}
	g, err := breaker.NewGroup(cfg)
	require.NoError(t, err)
	return g
}

func request(ctx context.Context, t *testing.T, url string, body io.Reader) *http.Request {
	t.Helper()
	method := http.MethodGet
	if body != nil {
		method = http.MethodPut
	}
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	require.NoError(t, err)
	return req
}

// send sends a request and returns its status, or its error.
func send(t *testing.T, rt http.RoundTripper, url string) (int, error) {
	t.Helper()
	resp, err := rt.RoundTrip(request(t.Context(), t, url, nil))
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

// counts are the successes, failures and ignored calls.
func counts(s breaker.Stats) [3]uint64 { return [3]uint64{s.Successes, s.Failures, s.Ignored} }
