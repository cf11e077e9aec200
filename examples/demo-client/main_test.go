package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEveryScenarioAgainstItsOwnServer(t *testing.T) {
	t.Parallel()
	var out, stderr bytes.Buffer
	require.Zero(t, run(t.Context(), nil, &out, &stderr), "%s%s", &out, &stderr)
	for _, s := range scenarios() {
		require.Contains(t, out.String(), s.name+": "+s.title)
	}
	for _, want := range []string{
		"429 Too Many Requests", `200 {"attempts":3}`, "closed → open", "open → half_open", "half_open → closed",
		"rejected: no request reached the server", "2 attempts of 200ms each", "others are: 2 requests",
	} {
		require.Contains(t, out.String(), want)
	}
	require.Equal(t, len(scenarios()), strings.Count(out.String(), "\nok\n"))
}

func TestEachScenarioAgainstAGivenServer(t *testing.T) {
	t.Parallel()
	target, stop, err := startServer(t.Context())
	require.NoError(t, err)
	t.Cleanup(stop)
	for _, s := range scenarios() {
		var out bytes.Buffer
		require.Zero(t, run(t.Context(), []string{"-target", target + "/", "-scenario", s.name}, &out, io.Discard), "%s", &out)
		require.Equal(t, 1, strings.Count(out.String(), "\nok\n"))
	}
}

// A server that does none of what the demo server does fails every scenario.
func TestEveryScenarioCanFail(t *testing.T) {
	t.Parallel()
	for name, status := range map[string]int{"always well": http.StatusOK, "always down": http.StatusInternalServerError} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
			t.Cleanup(srv.Close)
			for _, s := range scenarios() {
				var out, stderr bytes.Buffer
				require.Equal(t, 1, run(t.Context(), []string{"-target", srv.URL, "-scenario", s.name}, &out, &stderr), "%s: %s", s.name, &out)
				require.Contains(t, out.String(), "FAILED: ")
				require.Equal(t, "demo-client: 1 of 1 scenarios failed\n", stderr.String())
			}
		})
	}
}

func TestNoServerAtAll(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.Equal(t, 1, run(t.Context(), []string{"-target", "http://127.0.0.1:1", "-scenario", "ratelimit"}, &out, io.Discard))
	require.Contains(t, out.String(), "connection refused")
}

func TestWrongCommandLines(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"-colour red":                  "flag provided but not defined: -colour",
		"-scenario flood":              `demo-client: -scenario "flood": must be all, ratelimit, retry, breaker, timeout, override`,
		"-target localhost:8080":       `demo-client: -target "localhost:8080": must be a URL`,
		"-target http://":              `must be a URL, as in http://127.0.0.1:8080`,
		"extra":                        `demo-client: unexpected argument "extra": there are only flags`,
		"-scenario ratelimit -target ": "flag needs an argument: -target",
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			var stderr bytes.Buffer
			require.Equal(t, 2, run(t.Context(), strings.Fields(args), io.Discard, &stderr))
			require.Contains(t, stderr.String(), want)
		})
	}
	require.Zero(t, run(t.Context(), []string{"-h"}, io.Discard, io.Discard))
}
