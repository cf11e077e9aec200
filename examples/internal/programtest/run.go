// Package programtest runs the example programs that have a vendor, and has the tests that they share.
package programtest

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

	"github.com/gresil/gresil/examples/internal/program"
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

// Binary builds the program of the package, once. Under the race detector, calls would need more than
// the processors of a small machine.
func Binary(t *testing.T) (path string) {
	t.Helper()
	path, err := build()
	require.NoError(t, err)
	return path
}

// An Output is the text that a run has printed, and its exit code.
type Output struct {
	Code           int
	Stdout, Stderr string
	JSON           map[string]any
	Stood          float64 // seconds for which the machine stood still
}

// Run runs the program in this process and its children, with the arguments and -json. It reads the
// object that the program prints into the summary, too.
func Run(ctx context.Context, t *testing.T, c program.Command, summary any, args string) (o Output) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	o.Code = c.Run(ctx, append(strings.Fields(args), "-json"), &stdout, &stderr)
	o.Stdout, o.Stderr = stdout.String(), stderr.String()
	o.parse(t, summary)
	return o
}

// RunBinary is the same as a process of its own. It is interrupted when ctx ends.
func RunBinary(ctx context.Context, t *testing.T, stderr io.Writer, summary any, args string) (o Output) {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(ctx), Binary(t), append(strings.Fields(args), "-json")...)
	var stdout bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, stderr
	require.NoError(t, cmd.Start())
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Signal(os.Interrupt) })
	defer stop()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // the code has its error
	}()
	o.Stood = standstills(ended).Seconds()
	o.Code, o.Stdout = cmd.ProcessState.ExitCode(), stdout.String()
	o.parse(t, summary)
	return o
}

// Until returns a context that ends when the figures of a vendor are enough to interrupt a run: how many they are
// after a time depends on the machine.
func Until[Figures any](t *testing.T, vendor string, enough func(*Figures) bool) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	asking.Go(func() {
		for ctx.Err() == nil {
			if f, err := program.Judge[Figures](ctx, vendor); err == nil && enough(f) {
				cancel()
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
	t.Cleanup(func() {
		cancel()
		asking.Wait()
	})
	return ctx
}

// standstills returns, at the end of a program that this process runs, for how long this one got no CPU. The
// program had none either, and cannot make up for that if its rate is limited.
func standstills(ended <-chan struct{}) (sum time.Duration) {
	const beat, busy = 10 * time.Millisecond, 100 * time.Millisecond // late by less: the machine has other work
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	for last := time.Now(); ; last = time.Now() {
		select {
		case <-ended:
			return sum
		case <-ticker.C:
		}
		if late := time.Since(last) - beat; late >= busy {
			sum += late
		}
	}
}

func (o *Output) parse(t *testing.T, summary any) {
	t.Helper()
	for _, to := range []any{&o.JSON, summary} {
		require.NoError(t, json.Unmarshal([]byte(o.Stdout), to), o) // exactly one object
	}
}
