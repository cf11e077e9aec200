package programtest

import (
	"bufio"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// StartVendor starts a process that is the vendor alone, and returns its URL.
func StartVendor(t *testing.T, args ...string) (url string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), Binary(t), append([]string{"vendor", "-addr", "127.0.0.1:0"}, args...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Wait() }) // the context of the test has ended
	lines := bufio.NewScanner(out)
	require.True(t, lines.Scan())
	return lines.Text()
}

// ForeignVendor starts a vendor that is not ours, and returns its URL. Its calls match the pattern. Without
// a judge, it answers 404.
func ForeignVendor(t *testing.T, pattern string, call, judge http.HandlerFunc) (url string) {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc(pattern, call)
	if judge != nil {
		mux.HandleFunc("GET /judge", judge)
	}
	srv := httptest.NewServer(http.StripPrefix("/base", mux))
	t.Cleanup(srv.Close)
	return srv.URL + "/base/"
}

// FailingJudges returns judges with the problems that a program has with them.
func FailingJudges() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"/judge answers 503 Service Unavailable": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
		"/judge must answer with a JSON object":  func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "fine") },
	}
}

// Unreachable is the address of no server: its port is below those that a kernel gives to tests beside.
const Unreachable = "127.0.0.1:1"

// Request sends a request with a connection of its own, and returns the response and its body.
func Request(t *testing.T, method, url string, header http.Header, body string) (resp *http.Response, text string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	req.Header = header
	resp, err = (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	require.NoError(t, err)
	read, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return resp, string(read)
}
