package demo

import (
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

// A Worker is this process, if it is one of [Workers]. It writes a line for each step: a word, a number, and more. A line that
// was written is not lost if the worker is killed.
type Worker struct {
	Stats func() // says more than the stall, five times a second and at the end

	order string
	in    io.Reader
	end   context.CancelFunc
	stall Stall
	mu    sync.Mutex
	out   io.Writer
}

const reportTime = 200 * time.Millisecond

// RunWorker returns the exit code of a worker with an order in JSON.
func (c Command) RunWorker(order string, in io.Reader, out, stderr io.Writer) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	w := &Worker{Stats: func() {}, order: order, in: in, out: out, end: cancel}
	go w.stall.Watch(ctx)
	if err := c.Worker(ctx, w); err != nil {
		fmt.Fprintf(stderr, "worker: %v\n", err)
		return 1
	}
	w.report()
	return 0
}

// Order reads what the worker was told at its start.
func (w *Worker) Order(to any) error { return json.Unmarshal([]byte(w.order), to) }

// Begin says that the worker is ready, and reads its input, which comes when all are. The context of the worker ends with the
// run.
func (w *Worker) Begin(ctx context.Context, input any) error {
	w.Say("ready", 0, "")
	if err := json.NewDecoder(w.in).Decode(input); err != nil {
		return err
	}
	go endWith(w.in, w.end)
	go Repeat(ctx, reportTime, w.report)
	return nil
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
