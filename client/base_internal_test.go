package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
)

// refusesConnect is a proxy that answers each CONNECT with a status line.
func refusesConnect(t *testing.T, line string) func(*http.Request) (*url.URL, error) {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 "+line+"\r\nContent-Length: 0\r\n\r\n")
		_ = c.Close()
	}))
	t.Cleanup(srv.Close)
	return http.ProxyURL(core.Must(url.Parse(srv.URL)))
}

func connectTo(t *testing.T, tr *Transport) error {
	t.Helper()
	req := core.Must(http.NewRequestWithContext(t.Context(), http.MethodPost, "https://example.test/", strings.NewReader("x")))
	_, err := tr.RoundTrip(req)
	require.Error(t, err)
	return err
}

func TestARefusedConnectIsNotSentWhateverItsText(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"407 Proxy Authentication Required", "403 Blocked by policy 7", "407 ", "502 connect failed", "599 x", "204 No Content"} {
		tr := New(nil)
		tr.base.(*http.Transport).Proxy = refusesConnect(t, line)
		err := connectTo(t, tr)
		require.True(t, NotSent(err), "%s: %v", line, err)
		require.ErrorContains(t, err, strings.TrimSpace(line))
		require.Equal(t, core.Failure, Classify(t.Context(), nil, err), line)
		require.NoError(t, tr.Close())
	}
}

func TestTheProgramsOwnFunctionForAConnectIsCalled(t *testing.T) {
	t.Parallel()
	mine := errors.New("not this proxy")
	for want, f := range map[string]onConnect{
		"not this proxy": func(context.Context, *url.URL, *http.Request, *http.Response) error { return mine },
		"403 Blocked": func(_ context.Context, proxy *url.URL, req *http.Request, resp *http.Response) error {
			if proxy == nil || req.Method != http.MethodConnect || resp.StatusCode != http.StatusForbidden {
				return mine
			}
			return nil
		},
	} {
		base := &http.Transport{Proxy: refusesConnect(t, "403 Blocked"), OnProxyConnectResponse: refusing(f)}
		err := connectTo(t, New(base))
		require.True(t, NotSent(err), want)
		require.ErrorContains(t, err, want)
		require.Equal(t, want == mine.Error(), errors.Is(err, mine))
		base.CloseIdleConnections()
	}
}
