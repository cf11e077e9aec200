package retry_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/plugins/retry"
)

func TestErrorsThatAreTheSameEachTimeAreNotRetried(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		err  error
		url  *url.URL // else a good one
		want int
	}{
		"host name":         {err: fmt.Errorf("dial: %w", x509.HostnameError{Certificate: &x509.Certificate{}}), want: 1},
		"unknown authority": {err: errors.Join(x509.UnknownAuthorityError{}), want: 1},
		"expired":           {err: x509.CertificateInvalidError{Reason: x509.Expired}, want: 1},
		"no TLS there":      {err: http.ErrSchemeMismatch, want: 1},
		"port":              {err: &net.OpError{Op: "dial", Err: &net.AddrError{Err: "invalid port", Addr: "99999"}}, want: 1},
		"config":            {err: &core.ConfigError{Field: "x"}, want: 1},
		"no host":           {err: io.EOF, url: &url.URL{Scheme: "https"}, want: 1},
		"no URL":            {err: io.EOF, want: 1},
		"no host needed":    {err: io.EOF, url: &url.URL{Scheme: "unix", Path: "/run/x"}, want: 3},
		"TLS, but no trust": {err: &net.OpError{Op: "remote error", Err: tls.AlertError(80)}, url: &url.URL{Scheme: "https", Host: "a.test"}, want: 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := get(t)
			if tt.url != nil || name == "no URL" {
				req.URL = tt.url
			}
			sent := 0
			rt := quick(retry.Config{}).Transport(roundTrip(func(*http.Request) (*http.Response, error) {
				sent++
				return nil, tt.err
			}))
			_, err := rt.RoundTrip(req)
			require.Equal(t, tt.err, err)
			require.Equal(t, tt.want, sent)
		})
	}
}

func TestACertificateThatVerifyConnectionDoesNotAcceptIsNotRetried(t *testing.T) {
	t.Parallel()
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	var asked atomic.Int32
	tr := &http.Transport{TLSClientConfig: &tls.Config{
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection does it
		VerifyConnection: func(cs tls.ConnectionState) error {
			asked.Add(1)
			_, err := cs.PeerCertificates[0].Verify(x509.VerifyOptions{})
			return err
		},
	}}
	defer tr.CloseIdleConnections()
	req := core.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, secure.URL, nil))
	_, err := quick(retry.Config{}).Transport(tr).RoundTrip(req)
	require.ErrorAs(t, err, new(x509.UnknownAuthorityError))
	require.EqualValues(t, 1, asked.Load())
}
