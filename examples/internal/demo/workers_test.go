package demo

import (
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A counter is a task that counts the lines.
type counter struct{ lines []string }

func (*counter) Order(*Process) any             { return nil }
func (*counter) Input(*Process) any             { return nil }
func (*counter) Ended(*Process) bool            { return true }
func (c *counter) Progress() (int, int, string) { return len(c.lines), 100, "" }
func (c *counter) Line(_ *Process, w string, n int, rest string) {
	c.lines = append(c.lines, fmt.Sprint(w, n, rest))
}

func TestLinesOfWorker(t *testing.T) {
	t.Parallel()
	task := &counter{}
	w := &Workers{Task: task, Screen: &Screen{Writer: io.Discard}}
	p := &Process{name: "worker 1"}
	for _, line := range []string{"stall 7", "done 1", "stall 5", "failed 2 for a reason"} {
		require.NoError(t, w.handle(t.Context(), event{p, line}))
	}
	require.Equal(t, []string{"done1", "failed2for a reason"}, task.lines)
	require.Equal(t, 7*time.Nanosecond, w.stall)
	w.Note("the first")
	w.Note("another")
	require.Equal(t, "the first", w.Error)
}

// No stall makes a run faster than the limit.
func TestStallExcusesRun(t *testing.T) {
	t.Parallel()
	for elapsed, want := range map[int]bool{1: false, 8: false, 10: true, 12: true} {
		w := &Workers{Start: time.Unix(1, 0), last: time.Unix(1, 0).Add(time.Duration(elapsed) * time.Second), stall: 60 * time.Millisecond}
		r := &Report{}
		require.Equal(t, want, w.Report(r, 10*time.Second, time.Second, 20*time.Millisecond), elapsed)
		require.False(t, w.Report(r, 10*time.Second, time.Second, 60*time.Millisecond), elapsed)
		require.InDelta(t, elapsed, r.values["elapsed_seconds"], 0)
		require.InDelta(t, 60, r.values["stall_ms"], 0)
	}
}
