package demotest

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/examples/internal/demo"
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

// A Foreign vendor is not ours. Without a Judge, it answers 404 there.
type Foreign struct {
	Call  func(w http.ResponseWriter, r *http.Request, n int, body []byte) // the n-th call, from 1
	Judge http.HandlerFunc

	mu   sync.Mutex
	seen []*http.Request
	read [][]byte
}

// Start returns the URL of the vendor. Its calls match the pattern.
func (f *Foreign) Start(t *testing.T, pattern string) (url string) {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // a test looks at it
		f.mu.Lock()
		f.seen, f.read = append(f.seen, r), append(f.read, body)
		n := len(f.seen)
		f.mu.Unlock()
		f.Call(w, r, n, body)
	})
	if f.Judge != nil {
		mux.HandleFunc("GET /judge", f.Judge)
	}
	srv := httptest.NewServer(http.StripPrefix("/base", mux))
	t.Cleanup(srv.Close)
	return srv.URL + "/base/"
}

// Seen returns the calls so far, and their bodies.
func (f *Foreign) Seen() ([]*http.Request, [][]byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen, f.read
}

// FailingJudges checks that a judge that fails is an error of each run with these arguments and a vendor.
func FailingJudges(t *testing.T, c demo.Command, pattern string, f func() *Foreign, args ...string) {
	t.Helper()
	for want, judge := range map[string]http.HandlerFunc{
		"/judge answers 503 Service Unavailable": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
		"/judge must answer with a JSON object":  func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "fine") },
	} {
		for _, a := range args {
			vendor := f()
			vendor.Judge = judge
			r := Run(t.Context(), t, c, "%s -vendor %s", a, vendor.Start(t, pattern))
			require.Equal(t, 1, r.Code, r)
			require.False(t, r.Is("judged"))
			require.Contains(t, r.Text("problem"), want)
		}
	}
}

// Unreachable is the address of no server: its port is below those that a kernel gives to tests beside.
const Unreachable = "127.0.0.1:1"

// Request sends a request with a connection of its own, and returns the response and its body.
func Request(t testing.TB, method, url string, header http.Header, body string) (resp *http.Response, text string) {
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

// WrongCommandLines checks that the command lines are wrong, for the reasons.
func WrongCommandLines(t *testing.T, c demo.Command, reasons map[string]string) {
	t.Helper()
	for args, want := range reasons {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			var stdout, stderr bytes.Buffer
			require.Equal(t, 2, c.Run(t.Context(), strings.Fields(args), &stdout, &stderr))
			require.Contains(t, stderr.String(), want)
			require.Empty(t, stdout.String())
		})
	}
	require.Zero(t, c.Run(t.Context(), []string{"-h"}, io.Discard, io.Discard))
	for part := range c.Parts {
		require.Zero(t, c.Run(t.Context(), []string{part, "-h"}, io.Discard, io.Discard))
	}
}

// WithoutRedisServer checks the problems of command lines where redis-server is not installed. "" is none.
func WithoutRedisServer(t *testing.T, problems map[string]string) {
	t.Helper()
	for args, want := range problems {
		cmd := exec.CommandContext(t.Context(), Binary(t), append(strings.Fields(args), "-json")...)
		cmd.Env = []string{"PATH=" + t.TempDir()}
		out, err := cmd.Output()
		if want == "" {
			require.NoError(t, err, string(out))
			continue
		}
		require.ErrorContains(t, err, "exit status 1")
		require.Contains(t, string(out), want)
	}
}
