// Package demotest runs the example programs, and has the tests that they share.
package demotest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/examples/internal/demo"
)

// Main runs the tests. The test binary is the program itself where its arguments are not those of a test.
func Main(m *testing.M, main func()) {
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-test.") {
		main()
	}
	_ = os.Setenv("GORACE", "atexit_sleep_ms=0") // for our processes: otherwise each ends a second late
	code := m.Run()
	if folder != "" {
		_ = os.RemoveAll(folder)
	}
	os.Exit(code)
}

var folder string // of the binary, if it is built

var build = sync.OnceValues(func() (path string, err error) {
	if folder, err = os.MkdirTemp("", "gresil-example-"); err != nil {
		return "", err
	}
	path = filepath.Join(folder, "program")
	out, err := exec.CommandContext(context.Background(), "go", "build", "-o", path, ".").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

// Binary builds the program of the package, once. Under the race detector, calls would need more than the processors of a
// small machine.
func Binary(t *testing.T) (path string) {
	t.Helper()
	path, err := build()
	require.NoError(t, err)
	return path
}

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

// Texts returns a field that is an array of texts.
func (o Output) Texts(name string) (all []string) {
	_ = json.Unmarshal(o.Figures[name], &all) // the test fails without any
	return all
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

// Run runs the program in this process and its children, with the arguments and -json.
func Run(ctx context.Context, t *testing.T, c demo.Command, format string, args ...any) (o Output) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	o.Code = c.Run(ctx, append(strings.Fields(fmt.Sprintf(format, args...)), "-json"), &stdout, &stderr)
	o.Stdout, o.Stderr = stdout.String(), stderr.String()
	require.NoError(t, json.Unmarshal([]byte(o.Stdout), &o.Figures), o) // exactly one object
	return o
}

// RunBinary is the same as a process of its own. It is interrupted when ctx ends.
func RunBinary(ctx context.Context, t *testing.T, stderr io.Writer, format string, args ...any) (o Output) {
	t.Helper()
	fields := append(strings.Fields(fmt.Sprintf(format, args...)), "-json")
	cmd := exec.CommandContext(context.WithoutCancel(ctx), Binary(t), fields...)
	var stdout bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, stderr
	require.NoError(t, cmd.Start())
	defer context.AfterFunc(ctx, func() { _ = cmd.Process.Signal(os.Interrupt) })()
	_ = cmd.Wait() // the code has its error
	o.Code, o.Stdout = cmd.ProcessState.ExitCode(), stdout.String()
	require.NoError(t, json.Unmarshal([]byte(o.Stdout), &o.Figures), o)
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

// Until returns a context that ends when the figures of a vendor are enough to interrupt a run: how many they are after a
// time depends on the machine.
func Until(t *testing.T, vendor string, enough func(demo.Figures) bool) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	asking.Go(func() {
		demo.Repeat(ctx, 10*time.Millisecond, func() {
			if f, err := demo.Judge(ctx, vendor); err == nil && enough(f) {
				cancel()
			}
		})
	})
	t.Cleanup(func() {
		cancel()
		asking.Wait()
	})
	return ctx
}
