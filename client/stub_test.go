package client_test

import (
	"io"
	"net/http"
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
