package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/gresil/gresil/examples/internal/program"
)

// An order has all that a worker must know.
type order struct {
	Run            string // the name of the run
	Vendor         string // URL
	Redis          string // HOST:PORT, or ""
	Algorithm      string
	Options        int
	Records        int // of all workers
	MaxRecords     int
	CallsPerMinute int
	Scale          float64
	Workers        int
	Worker         int // from 0
}

// minute is that of the vendor.
func (o order) minute() time.Duration { return scaled(time.Minute, o.Scale) }

// numbers calls f with the number of each record of the worker, until it fails. Each option has records
// in each worker.
func (o order) numbers(f func(n int) error) error {
	for n := range o.Records {
		if n/o.Options%o.Workers != o.Worker {
			continue
		}
		if err := f(n); err != nil {
			return err
		}
	}
	return nil
}

const reportTime = 200 * time.Millisecond

// A worker adds its records, and makes calls with records of any worker. It writes a line for each step:
//
//	ready 0         its records are added
//	called 1        a call was answered with results
//	refused 1       a call was over the limit
//	wrong 1 WHY     a call had no answer, or another one
//	served N KEY    N records of a call are accepted
//	failed N WHY    N records are given up
//	stats STALL
//
// It begins to make calls when it reads the line "go", and ends with its input.
type worker struct {
	order
	remote
	stall program.Stall

	mu  sync.Mutex
	out io.Writer
}

// An algorithm groups records, and calls the vendor.
type algorithm interface {
	add(ctx context.Context) error // all records of the worker
	run(ctx context.Context) error // makes the calls, until ctx ends
	stop() error                   // after run
}

func (w *worker) newAlgorithm(ctx context.Context) (algorithm, error) {
	switch w.Algorithm {
	case "naive":
		return naive{w}, nil
	case "fork":
		return newFork(ctx, w)
	}
	return newGrouped(ctx, w)
}

// runWorker returns the exit code.
func runWorker(told string, in io.Reader, out, stderr io.Writer) int {
	w := worker{out: out}
	err := json.Unmarshal([]byte(told), &w.order)
	if err == nil {
		w.remote = newRemote(&w)
		err = w.work(in)
	}
	if err != nil {
		fmt.Fprintf(stderr, "grouped-calls worker: %v\n", err)
		return 1
	}
	return 0
}

func (w *worker) work(in io.Reader) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	a, err := w.newAlgorithm(ctx)
	if err != nil {
		return err
	}
	if err := a.add(ctx); err != nil {
		return err
	}
	w.say("ready 0")
	lines := bufio.NewScanner(in)
	if lines.Scan() { // go
		ended := make(chan error, 1)
		go func() { ended <- a.run(ctx) }()
		go w.stall.Watch(ctx)
		go program.Repeat(ctx, reportTime, w.stats)
		lines.Scan() // the end
		cancel()
		err = <-ended
	}
	w.stats()
	if late := a.stop(); err == nil {
		err = late
	}
	return err
}

func (w *worker) stats() { w.say("stats %d", w.stall.Duration()) }

// fail gives up records.
func (w *worker) fail(n int, err error) { w.say("failed %d %v", n, err) }

const longest = 1000 // line, in bytes: the answer of a vendor can have any length

// say writes a line. If the parent has ended, this process ends too, by SIGPIPE.
func (w *worker) say(format string, args ...any) {
	line := strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", " ")
	if len(line) > longest {
		line = strings.ToValidUTF8(line[:longest], "") + "..."
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	fmt.Fprintln(w.out, line)
}
