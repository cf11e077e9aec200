package programtest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/examples/internal/program"
)

// WrongCommandLines checks that the command lines are wrong, for the reasons.
func WrongCommandLines(t *testing.T, c program.Command, reasons map[string]string) {
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
	require.Zero(t, c.Run(t.Context(), []string{"vendor", "-h"}, io.Discard, io.Discard))
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

var workerLine = regexp.MustCompile(`^(?:worker|process) \d+: pid (\d+)$`)

// EndsWithItsProcesses checks that the vendor and the workers end with the program, if it is killed while
// the workers make calls.
func EndsWithItsProcesses(t *testing.T, workers int, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), Binary(t), args...)
	out, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(out)
	require.True(t, lines.Scan())
	vendor, ok := strings.CutPrefix(lines.Text(), "vendor: ")
	require.True(t, ok)
	var pids []string
	for len(pids) < workers && lines.Scan() {
		m := workerLine.FindStringSubmatch(lines.Text())
		require.NotNil(t, m, lines.Text())
		pids = append(pids, m[1])
	}
	type figures struct{ Arrivals json.Number }
	require.Eventually(t, func() bool {
		f, err := program.Judge[figures](t.Context(), vendor)
		return err == nil && program.Value(f.Arrivals) > 0
	}, time.Minute, 10*time.Millisecond)
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait() // it was killed
	for _, pid := range pids {
		require.Eventually(t, func() bool {
			stat, err := os.ReadFile("/proc/" + pid + "/stat")
			return err != nil || strings.Contains(string(stat), ") Z ")
		}, time.Minute, 10*time.Millisecond)
	}
	require.Eventually(t, func() bool {
		_, err := program.Judge[figures](t.Context(), vendor)
		return err != nil
	}, time.Minute, 10*time.Millisecond)
}
