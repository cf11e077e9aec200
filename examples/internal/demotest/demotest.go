// Package demotest runs the example programs, and has what their tests share.
package demotest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
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

// Main runs the tests. The test binary is the program itself where its arguments are not those of a test.
func Main(m *testing.M, main func()) {
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-test.") {
		main()
	}
	_ = os.Setenv("GORACE", "atexit_sleep_ms=0") // for our processes: otherwise each ends a second late
	os.Exit(m.Run())
}

// binary builds the program of the package, once, beside the test binary. Under the race detector, calls would need more than
// the processors of a small machine.
var binary = sync.OnceValue(func() (path string) {
	path = os.Args[0] + "-without-race"
	out, err := exec.CommandContext(context.Background(), "go", "build", "-ldflags=-s -w", "-o", path, ".").CombinedOutput()
	if err != nil {
		panic(fmt.Sprintf("%v: %s", err, out))
	}
	return path
})

// An Output is the text that a run has printed, the object in it, and its exit code.
type Output struct {
	demo.Figures

	Code           int
	Stdout, Stderr string
}

// Text returns a field that is a text.
func (o Output) Text(name string) (s string) {
	_ = json.Unmarshal(o.Figures[name], &s) // the test fails with ""
	return s
}

// Is reports whether a field is true.
func (o Output) Is(name string) bool { return string(o.Figures[name]) == "true" }

// Nums returns fields that are whole numbers.
func (o Output) Nums(names ...string) (all []int) {
	for _, name := range names {
		all = append(all, int(o.Num(name)))
	}
	return all
}

// Run runs the program as a process, with the arguments and -json. It is interrupted when ctx ends.
func Run(ctx context.Context, t *testing.T, format string, args ...any) (o Output) {
	t.Helper()
	return run(ctx, t, os.Args[0], io.Discard, fmt.Sprintf(format, args...))
}

// RunBinary is the same without the race detector. It copies what is written to the standard error.
func RunBinary(ctx context.Context, t *testing.T, stderr io.Writer, format string, args ...any) (o Output) {
	t.Helper()
	return run(ctx, t, binary(), stderr, fmt.Sprintf(format, args...))
}

func run(ctx context.Context, t *testing.T, program string, copied io.Writer, args string) (o Output) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(context.WithoutCancel(ctx), program, append(strings.Fields(args), "-json")...)
	cmd.Stdout, cmd.Stderr = &stdout, io.MultiWriter(&stderr, copied)
	require.NoError(t, cmd.Start())
	defer context.AfterFunc(ctx, func() { _ = cmd.Process.Signal(os.Interrupt) })()
	_ = cmd.Wait() // the code has its error
	o.Code, o.Stdout, o.Stderr = cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()
	require.NoError(t, json.Unmarshal([]byte(o.Stdout), &o.Figures), o) // exactly one object
	return o
}

// Repeat repeats a test, with a number that is changed each time, while its run is void: the machine stalled.
func Repeat(t *testing.T, number float64, factor float64, test func(number float64) Output) (o Output) {
	t.Helper()
	for range 4 {
		if o = test(number); o.Code != 3 {
			return o
		}
		t.Log("void: ", o.Stdout)
		number *= factor
	}
	t.Fatal("the machine stalled each time")
	return o
}

// A Foreign vendor is not ours. Its judge answers with the JSON of Figures, if there are any.
type Foreign struct {
	Call    func(w http.ResponseWriter, r *http.Request, n int, body []byte) // the n-th call, from 1
	Figures string

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
	if f.Figures != "" {
		mux.HandleFunc("GET /judge", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, f.Figures) })
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

// Unreachable is the address of no server: its port is below those that a kernel gives to tests beside.
const Unreachable = "127.0.0.1:1"

// Request sends a request with a connection of its own, and returns the response and its body.
func Request(tb testing.TB, method, url string, header http.Header, body string) (resp *http.Response, text string) {
	tb.Helper()
	got, err := demo.Fetch(tb.Context(), &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, method, url, header, []byte(body))
	require.NoError(tb, err)
	return got.Response, string(got.Text)
}

// WrongCommandLines checks that the command lines are wrong, for the reasons.
func WrongCommandLines(t *testing.T, c demo.Command, reasons map[string]string) {
	t.Helper()
	for args, want := range reasons {
		var stdout, stderr bytes.Buffer
		require.Equal(t, 2, c.Run(t.Context(), strings.Fields(args), &stdout, &stderr), args)
		require.Contains(t, stderr.String(), want)
		require.Empty(t, stdout.String())
	}
	require.Zero(t, c.Run(t.Context(), []string{"-h"}, io.Discard, io.Discard))
	for part := range c.Parts {
		require.Zero(t, c.Run(t.Context(), []string{part, "-h"}, io.Discard, io.Discard))
	}
}
