package client_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
)

func TestIdempotent(t *testing.T) {
	t.Parallel()
	for method, want := range map[string]bool{
		"": true, "GET": true, "HEAD": true, "OPTIONS": true, "TRACE": true, "PUT": true, "DELETE": true,
		"POST": false, "PATCH": false, "CONNECT": false, "get": false, "PURGE": false,
	} {
		require.Equal(t, want, client.Idempotent(&http.Request{Method: method}), method)
		for _, h := range []http.Header{
			{"Idempotency-Key": {"1"}},
			{"X-Idempotency-Key": {"1"}},
			{"Idempotency-Key": nil},
			{"X-Idempotency-Key": {}}, // marks it without sending anything
		} {
			require.True(t, client.Idempotent(&http.Request{Method: method, Header: h}))
		}
		require.Equal(t, want, client.Idempotent(&http.Request{Method: method, Header: http.Header{"Idempotency": {"1"}}}), method)
	}
}

func TestNotSent_NetHTTP(t *testing.T) {
	t.Parallel()
	tlsServer := httptest.NewUnstartedServer(http.NotFoundHandler())
	tlsServer.Config.ErrorLog = log.New(io.Discard, "", 0)
	tlsServer.StartTLS()
	t.Cleanup(tlsServer.Close)
	proxy, err := url.Parse("http://" + closedPort)
	require.NoError(t, err)
	hangsUp := hangUpAfterRequest(t)
	nowhere := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("no name server")
	}}
	for name, tc := range map[string]struct {
		tr   *http.Transport
		url  string
		want bool
		text string
	}{
		"refused":           {&http.Transport{}, "http://" + closedPort, true, "refused"},
		"proxy refused":     {&http.Transport{Proxy: http.ProxyURL(proxy)}, "https://example.test", true, "proxyconnect"},
		"unknown authority": {&http.Transport{}, tlsServer.URL, true, "failed to verify certificate"},
		"no name server":    {&http.Transport{DialContext: (&net.Dialer{Resolver: nowhere}).DialContext}, "http://example.test", true, "no name server"},
		"CONNECT refused":   {&http.Transport{Proxy: refusesConnect(t)}, "https://example.test", true, "Proxy Authentication Required"},
		"no handshake":      {&http.Transport{TLSHandshakeTimeout: time.Millisecond}, "https://" + silent(t), true, "TLS handshake timeout"},
		"hangs up after it": {&http.Transport{}, "http://" + hangsUp, false, "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			defer tc.tr.CloseIdleConnections()
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, tc.url, http.NoBody)
			require.NoError(t, err)
			_, err = tc.tr.RoundTrip(req)
			require.Error(t, err)
			require.ErrorContains(t, err, tc.text)
			require.Equal(t, tc.want, client.NotSent(err), "%v", err)
			wrapped := client.NotSent(fmt.Errorf("wrapped: %w", err)) // which makes another of the text of a proxy
			require.Equal(t, tc.want && name != "CONNECT refused", wrapped)
		})
	}
}

func TestNotSent(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		&net.DNSError{Name: "x", IsNotFound: true},
		&net.OpError{Op: "dial", Err: errors.New("x")},
		&net.OpError{Op: "proxyconnect", Err: errors.New("x")},
		&net.OpError{Op: "socks connect", Err: errors.New("x")},
		&tls.CertificateVerificationError{Err: errors.New("x")},
		core.ErrRejected,
		errors.New("http2: Transport received Server's graceful shutdown GOAWAY"), // as in golang.org/x/net
		errors.New("net/http: TLS handshake timeout"),
		fmt.Errorf("x: %w", errors.New("http2: Transport received Server's graceful shutdown GOAWAY")),
	} {
		require.True(t, client.NotSent(err), "%v", err)
		require.True(t, client.NotSent(fmt.Errorf("%w: %w", errDown, err)), "%v, with another error", err)
	}
	for _, err := range []error{
		nil, io.EOF, io.ErrUnexpectedEOF, context.Canceled, &net.OpError{Op: "read", Err: errors.New("reset")}, &net.OpError{Op: "write", Err: errors.New("pipe")},
		errors.New("http2: Transport received GOAWAY from server ErrCode:NO_ERROR"),
		errors.New("http2: Transport: cannot retry err [stream error: stream ID 1; PROTOCOL_ERROR; received from peer] after Request.Body was written; define Request.GetBody to avoid this error"),
		errors.New("the proxy says: stream error: stream ID 1; REFUSED_STREAM"),
		errors.New("OK"), errors.New("407 Proxy Authentication Required"), errors.New(""), fmt.Errorf("Forbidden: %w", errDown),
	} {
		require.False(t, client.NotSent(err), "%v", err)
	}
	for _, status := range []string{"Forbidden", "Bad Gateway", "unknown status code"} { // the errors of net/http for a CONNECT
		require.True(t, client.NotSent(errors.New(status)), status)
	}
}

// refusesConnect is a proxy that answers each CONNECT with 407.
func refusesConnect(t *testing.T) func(*http.Request) (*url.URL, error) {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusProxyAuthRequired) }))
	t.Cleanup(srv.Close)
	return http.ProxyURL(core.Must(url.Parse(srv.URL)))
}

// closedPort is the address of no server, and of none that a test beside starts.
const closedPort = "127.0.0.1:1"

// hangUpAfterRequest is a server that reads a request and closes the connection.
func hangUpAfterRequest(t *testing.T) string {
	t.Helper()
	li, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = li.Close() })
	go func() {
		for {
			c, err := li.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 4096))
			_ = c.Close()
		}
	}()
	return li.Addr().String()
}

// silent returns the address of a server that accepts connections, and says nothing.
func silent(t *testing.T) string {
	t.Helper()
	li, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = li.Close() })
	return li.Addr().String()
}
