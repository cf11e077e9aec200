package demo

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// NewRun returns a name that no other run has.
func NewRun() string { return strings.ToLower(rand.Text()[:8]) }

// A Worker is this process, if it is one of a [Crew]. It writes a line for each step: a word, a number, and more. A line
// that was written is not lost if the worker is killed. It reads lines, and ends with its input.
type Worker struct {
	Lines *bufio.Scanner
	Stats func() // says more than the stall, five times a second and at the end; nil for none

	told  string
	stall Stall
	mu    sync.Mutex
	out   io.Writer
}

const reportTime = 200 * time.Millisecond

// RunWorker returns the exit code of a worker with an order in JSON.
func (c Command) RunWorker(told string, in io.Reader, out, stderr io.Writer) int {
	w := &Worker{Lines: bufio.NewScanner(in), Stats: func() {}, told: told, out: out}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go w.stall.Watch(ctx)
	if err := c.Worker(ctx, w); err != nil {
		fmt.Fprintf(stderr, "worker: %v\n", err)
		return 1
	}
	w.report()
	return 0
}

// Order reads what the crew has told the worker.
func (w *Worker) Order(order any) error { return json.Unmarshal([]byte(w.told), order) }

// Ready says that the worker can begin, and reports from now on.
func (w *Worker) Ready(ctx context.Context) {
	w.Say("ready", 0, "")
	go Repeat(ctx, reportTime, w.report)
}

func (w *Worker) report() {
	w.Stats()
	w.Say("stall", int(w.stall.Duration()), "")
}

const longest = 1000 // line, in bytes: the answer of a vendor can have any length

// Say writes a line. If the parent has ended, this process ends too, by SIGPIPE.
func (w *Worker) Say(word string, n int, format string, args ...any) {
	line := strings.ReplaceAll(fmt.Sprintf("%s %d "+format, append([]any{word, n}, args...)...), "\n", " ")
	if len(line) > longest {
		line = strings.ToValidUTF8(line[:longest], "") + "..."
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	fmt.Fprintln(w.out, strings.TrimSuffix(line, " "))
}
