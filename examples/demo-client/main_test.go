package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/examples/internal/demoserver"
	"github.com/gresil/gresil/examples/internal/demotest"
	"github.com/gresil/gresil/plugins/ratelimit"
)

func TestMain(m *testing.M) {
	logging.Disable() // go-redis would log each connection to a server that a test has stopped
	demotest.Main(m, main)
}

func TestEveryScenarioAgainstItsOwnServer(t *testing.T) {
	t.Parallel()
	var out, stderr bytes.Buffer
	require.Zero(t, runScenarios(t.Context(), nil, &out, &stderr), "%s%s", &out, &stderr)
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
	handler, closeLimits, err := demoserver.New(ratelimit.Config{Limit: ratelimit.FixedWindow(5, 2*time.Second), Registry: &core.Registry{}})
	require.NoError(t, err)
	srv := httptest.NewServer(handler)
	t.Cleanup(func() { srv.Close(); require.NoError(t, closeLimits()) })
	for _, s := range scenarios() {
		var out bytes.Buffer
		require.Zero(t, play(t.Context(), []scenario{s}, srv.URL, &out, io.Discard), "%s", &out)
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
				require.Equal(t, 1, play(t.Context(), []scenario{s}, srv.URL, &out, &stderr), "%s: %s", s.name, &out)
				require.Contains(t, out.String(), "FAILED: ")
				require.Equal(t, "demo-client: 1 of 1 scenarios failed\n", stderr.String())
			}
		})
	}
}

func TestNoServerAtAll(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.Equal(t, 1, runScenarios(t.Context(), []string{"-target", "http://127.0.0.1:1/"}, &out, io.Discard))
	require.Contains(t, out.String(), "connection refused")
}

func TestWrongCommandLines(t *testing.T) {
	t.Parallel()
	demotest.WrongCommandLines(t, command(), map[string]string{
		"-colour red":        "flag provided but not defined: -colour",
		"extra":              `demo-client: unexpected argument "extra": there are only flags`,
		"-target":            "flag needs an argument: -target",
		"cluster extra":      `demo-client cluster: unexpected argument "extra": there are only flags`,
		"cluster -mode fast": `invalid value "fast" for flag -mode: must be strict, coalesced`,
		"cluster -limit 0":   `invalid value "0" for flag -limit: must be a whole number, 1 to 1000`,
		"cluster -servers 1": `invalid value "1" for flag -servers: must be a whole number, 2 to 32`,
	})
}
