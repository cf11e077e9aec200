package client_test

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/client"
)

func TestHost(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"https://a.test/x":       "a.test",
		"https://A.Test:443/":    "a.test",
		"https://a.test:/":       "a.test",
		"https://a.test:8443/":   "a.test:8443",
		"http://a.test/":         "a.test:80",
		"http://A.test:80/?q":    "a.test:80",
		"http://a.test:/":        "a.test:80",
		"http://a.test:8080/":    "a.test:8080",
		"http://[2001:DB8::1]/":  "[2001:db8::1]:80",
		"https://[2001:db8::1]/": "[2001:db8::1]",
		"https://[::1]:443/":     "[::1]",
		"http://[::1]:81/":       "[::1]:81",
		"https://user:pw@a.test": "a.test",
	} {
		u, err := url.Parse(in)
		require.NoError(t, err)
		host, ok := client.Host(&http.Request{URL: u})
		require.Equal(t, want, host, in)
		require.True(t, ok, in)
	}
	for _, u := range []*url.URL{nil, {}, {Scheme: "http", Path: "/x"}} {
		host, ok := client.Host(&http.Request{URL: u})
		require.Empty(t, host)
		require.False(t, ok)
	}
}
