package program

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// NewRun returns a name that no other run has.
func NewRun() string { return strings.ToLower(rand.Text()[:8]) }

// A Worker is a process of this program that makes calls. It reads lines, and writes others.
type Worker struct {
	In io.WriteCloser

	cmd    *exec.Cmd
	stderr bytes.Buffer // it can be read when the worker has ended
}

// StartWorker starts this program as a worker, with an order in JSON. It calls line for each line that
// the worker writes, and ended once after its end, one after the other. The worker does not end with ctx.
func StartWorker(ctx context.Context, order any, line func(string), ended func()) (*Worker, error) {
	told, err := json.Marshal(order)
	if err != nil {
		return nil, err
	}
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	w := &Worker{cmd: exec.CommandContext(context.WithoutCancel(ctx), exe, "worker", string(told))} //nolint:gosec // ourselves
	w.cmd.Stderr = &w.stderr
	if w.In, err = w.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := w.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			line(lines.Text())
		}
		_ = w.cmd.Wait() // its stderr has the reason
		ended()
	}()
	return w, nil
}

// PID returns the number of the process.
func (w *Worker) PID() int { return w.cmd.Process.Pid }

// Kill ends the process, if it has not ended.
func (w *Worker) Kill() { _ = w.cmd.Process.Kill() }

// Reason returns the last line that the worker has written to its standard error, after its end.
func (w *Worker) Reason() string {
	lines := strings.Split(strings.TrimSpace(w.stderr.String()), "\n")
	return lines[len(lines)-1]
}

// Repeat calls f again and again, until ctx ends.
func Repeat(ctx context.Context, every time.Duration, f func()) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			f()
		case <-ctx.Done():
			return
		}
	}
}
