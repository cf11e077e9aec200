package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
)

// TestMain is the program itself where the arguments are not those of a test.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-test.") {
		main()
	}
	_ = os.Setenv("GORACE", "atexit_sleep_ms=0") // for our processes: otherwise each ends a second late
	code := m.Run()
	_ = os.RemoveAll(filepath.Dir(core.Must(binary())))
	os.Exit(code)
}

// binary builds the program. Under the race detector, calls would need more than the processors of a
// small machine.
var binary = sync.OnceValues(func() (path string, err error) {
	dir, err := os.MkdirTemp("", "grouped-calls-")
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, "grouped-calls")
	out, err := exec.CommandContext(context.Background(), "go", "build", "-o", path, ".").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

// ran is a run of the program.
type ran struct {
	summary

	code           int
	stdout, stderr string
	json           map[string]any
}

// runJSON runs the program with -json, in this process and its children.
func runJSON(ctx context.Context, t *testing.T, format string, args ...any) (r ran) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	r.code = run(ctx, append(strings.Fields(fmt.Sprintf(format, args...)), "-json"), &stdout, &stderr)
	r.stdout, r.stderr = stdout.String(), stderr.String()
	require.NoError(t, r.parse(), r)
	return r
}

// runBinary is the same as a process of its own. It is interrupted when ctx ends.
func runBinary(ctx context.Context, t *testing.T, stderr io.Writer, format string, args ...any) (r ran) {
	t.Helper()
	path, err := binary()
	require.NoError(t, err)
	cmd := exec.CommandContext(context.WithoutCancel(ctx), path, append(strings.Fields(fmt.Sprintf(format, args...)), "-json")...)
	var stdout bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, stderr
	require.NoError(t, cmd.Start())
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Signal(os.Interrupt) })
	defer stop()
	_ = cmd.Wait() // the code has its error
	r.code, r.stdout = cmd.ProcessState.ExitCode(), stdout.String()
	require.NoError(t, r.parse(), r)
	return r
}

// parse reads stdout.
func (r *ran) parse() error {
	r.figures = &figures{}
	return errors.Join(json.Unmarshal([]byte(r.stdout), &r.json), json.Unmarshal([]byte(r.stdout), &r.summary))
}

// TestTheControlsBreakTheLimit: the load is strong enough for it. The fork sends records again too.
func TestTheControlsBreakTheLimit(t *testing.T) {
	t.Parallel()
	for algorithm, args := range map[string]string{"fork": "-records 20000", "naive": "-records 2000"} {
		t.Run(algorithm, func(t *testing.T) {
			t.Parallel()
			r := runBinary(t.Context(), t, io.Discard, "-scale 20 -algorithm %s %s", algorithm, args)
			require.Zero(t, r.code, r)
			require.False(t, r.OK)
			require.Positive(t, value(r.Over))
			require.Greater(t, value(r.MostSliding), 100.0)
			require.Contains(t, r.Problem, "calls in a minute, the limit is 100")
			require.Zero(t, r.Lost)
			if algorithm == "fork" {
				require.Equal(t, 20_000, r.Served)
				require.Positive(t, value(r.Duplicates))
			} else {
				require.Equal(t, 1900, r.Failed)
			}
		})
	}
}

// TestTheForkStarvesOptions: a call a minute for three options is an even part of no record.
func TestTheForkStarvesOptions(t *testing.T) {
	t.Parallel()
	r := runBinary(t.Context(), t, io.Discard, "-scale 600 -algorithm fork -options 3 -records 12 -max-records 2 -calls-per-minute 1")
	require.Zero(t, r.code, r)
	require.False(t, r.OK)
	require.Equal(t, 12, r.Lost)
	require.Equal(t, "0", r.Arrivals.String())
	require.Contains(t, r.Problem, "stopped, as no record was accepted for 3 minutes of the vendor; 12 of 12 records were not served")
}

// TestRedisIsNeededUnlessOneProcessDoesWithout: redis-server is not installed.
func TestRedisIsNeededUnlessOneProcessDoesWithout(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"-processes 2":                  "redis-server is not installed: install it, or give the -redis HOST:PORT of one that runs",
		"-processes 1 -algorithm fork":  "redis-server is not installed",
		"-processes 1":                  "",
		"-processes 2 -algorithm naive": "",
	} {
		cmd := exec.CommandContext(t.Context(), core.Must(binary()), append(strings.Fields(args), "-options", "2", "-records", "4", "-scale", "60", "-json")...)
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
