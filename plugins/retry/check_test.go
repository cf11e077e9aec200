package retry_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/blame"
	"github.com/gresil/gresil/internal/resiltest"
	"github.com/gresil/gresil/plugins/retry"
)

func TestCheckRetryOfStatuses(t *testing.T) {
	t.Parallel()
	for code, want := range map[int]int{
		200: 1, 201: 1, 301: 1, 307: 1, 400: 1, 401: 1, 403: 1, 404: 1, 405: 1, 409: 1, 410: 1, 413: 1, 421: 1, 422: 1, 501: 1, 505: 1,
		600: 1, 999: 1, 408: 2, 425: 2, 429: 4, 500: 4, 502: 4, 503: 4, 504: 4, 507: 4, 599: 4,
	} {
		s := resiltest.NewScript(status(code, 100))
		resp, err := do(t, quick(retry.Config{MaxAttempts: 4}, retry.ClientOptions{}), s, get(t))
		require.NoError(t, err)
		require.Equal(t, code, resp.StatusCode)
		require.Equal(t, want, s.Calls(), code)
		if code == 408 {
			require.Zero(t, s.Attempts()[0].Response.BytesRead(), "its connection is not used again")
		}
	}
}

func TestCheckRetryOfErrors(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		err    error
		change func(*http.Request) // and the error is that of net/http
		want   int
	}{
		"host name":             {err: fmt.Errorf("dial: %w", x509.HostnameError{Certificate: &x509.Certificate{}}), want: 1},
		"unknown authority":     {err: errors.Join(x509.UnknownAuthorityError{}), want: 1},
		"expired":               {err: x509.CertificateInvalidError{Reason: x509.Expired}, want: 1},
		"certificate, wrapped":  {err: errors.Join(&tls.CertificateVerificationError{Err: errors.New("expired")}), want: 1},
		"no TLS there":          {err: tls.RecordHeaderError{}, want: 1},
		"no TLS, http.Client":   {err: http.ErrSchemeMismatch, want: 1},
		"port":                  {err: &net.OpError{Op: "dial", Err: &net.AddrError{Err: "invalid port", Addr: "99999"}}, want: 1},
		"config":                {err: &core.ConfigError{Field: "x"}, want: 1},
		"no such name":          {err: &net.OpError{Op: "dial", Err: &net.DNSError{IsNotFound: true}}, want: 1},
		"canceled further in":   {err: errors.Join(errors.New("x"), context.Canceled), want: 1},
		"name server down":      {err: &net.OpError{Op: "dial", Err: &net.DNSError{IsTemporary: true}}, want: 3},
		"deadline further in":   {err: context.DeadlineExceeded, want: 3},
		"not sent, by a plugin": {err: &blame.Error{Err: errors.New("the store is down"), NotSent: true}, want: 3},
		"reset":                 {err: &net.OpError{Op: "read", Err: errors.New("reset")}, want: 3},
		"TLS alert":             {err: &net.OpError{Op: "remote error", Err: tls.AlertError(80)}, want: 3},
		"newline in a value":    {change: func(r *http.Request) { r.Header.Set("X-A", "a\nb") }, want: 1},
		"name of a header":      {change: func(r *http.Request) { r.Header["X A"] = []string{"a"} }, want: 1},
		"method":                {change: func(r *http.Request) { r.Method = "GET IT" }, want: 1},
		"length, no body":       {change: func(r *http.Request) { r.ContentLength = 5 }, want: 1},
		"no host":               {change: func(r *http.Request) { r.URL = &url.URL{Scheme: "https"} }, want: 1},
		"scheme":                {change: func(r *http.Request) { r.URL.Scheme = "gopher" }, want: 1},
	} {
		for which, p := range map[string]plugin{
			"zero":    quick(retry.Config{}, retry.ClientOptions{}),
			"RetryIf": quick(retry.Config{RetryIf: func(error) bool { return true }}, retry.ClientOptions{}),
			"all":     quick(retry.Config{}, retry.ClientOptions{Repeatable: func(*http.Request) bool { return true }, CheckRetry: retry.CheckRetry}),
		} {
			attempts, tr, req := 0, &http.Transport{}, get(t)
			if tt.change != nil {
				tt.change(req)
			}
			_, err := p.Transport(roundTrip(func(req *http.Request) (*http.Response, error) {
				if attempts++; tt.err != nil {
					return nil, tt.err
				}
				return tr.RoundTrip(req)
			})).RoundTrip(req)
			require.Error(t, err)
			require.Equal(t, tt.want, attempts, "%s: %s: %v", name, which, err)
			if tt.err != nil && tt.want == 1 {
				require.Equal(t, tt.err, err, "as it is")
			}
		}
	}
	again, err := retry.CheckRetry(t.Context(), nil, nil)
	require.False(t, again)
	require.NoError(t, err)
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	again, err = retry.CheckRetry(canceled, nil, io.EOF)
	require.False(t, again)
	require.ErrorIs(t, err, context.Canceled)
}
