package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"sync"
	"time"

	"github.com/gresil/gresil/examples/internal/program"
	"github.com/gresil/gresil/outbound/jobs"
)

// An order has all that a worker must know.
type order struct {
	Run       string // the name of the run
	Vendor    string // URL
	Redis     string // HOST:PORT, or ""
	Algorithm string
	Engine    string
	Campaigns int
	CPS       int
	Sockets   int // in use at a time
}

// campaign returns the name of the campaign of the call n.
func (o order) campaign(n int) string { return fmt.Sprintf("%s-%d", o.Run, n%o.Campaigns+1) }

// key returns the name of the call n.
func (o order) key(n int) string { return o.campaign(n) + "/" + strconv.Itoa(n/o.Campaigns+1) }

const (
	answerTime = 10 * time.Second // of the vendor
	reportTime = 200 * time.Millisecond
)

// A worker makes the calls of its jobs: those whose numbers it reads, or with the engine asynq, those in
// Redis. It writes a line for each step of a call:
//
//	run N ATTEMPT    its handler begins
//	later N          it has no permit, and waits for long
//	started N        it is about to be sent
//	done N           it was served
//	failed N WHY
//	stats CHECKS STALE STALL
//
// The first line is "ready". A line that was written is not lost if the worker is killed.
type worker struct {
	order
	wire      wire
	algorithm algorithm
	jobs      *jobs.Runner
	stall     program.Stall

	mu  sync.Mutex
	out io.Writer
}

// runWorker returns the exit code.
func runWorker(told string, in io.Reader, out, stderr io.Writer) int {
	w := worker{out: out}
	err := json.Unmarshal([]byte(told), &w.order)
	if err == nil {
		w.jobs, err = newJobs(&w)
	}
	if err == nil {
		w.wire = wire{&w, &http.Transport{MaxIdleConnsPerHost: w.Sockets}}
		w.algorithm, err = newAlgorithm(&w)
	}
	if err == nil {
		err = w.work(in)
	}
	if err != nil {
		fmt.Fprintf(stderr, "campaigns worker: %v\n", err)
		return 1
	}
	return 0
}

// work makes calls until the input ends or the jobs cannot be run, and waits for those that are sent.
func (w *worker) work(in io.Reader) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go w.stall.Watch(ctx)
	go program.Repeat(ctx, reportTime, w.stats)
	ran := make(chan error, 1)
	go func() { ran <- w.jobs.Run(ctx) }()
	w.say("ready")
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		n, err := strconv.Atoi(lines.Text())
		if err != nil {
			return err
		}
		if _, err := w.jobs.Enqueue(ctx, w.job(n)); err != nil {
			return err
		}
	}
	w.algorithm.stop()
	cancel()
	err := <-ran
	w.stats()
	return errors.Join(lines.Err(), err)
}

func (w *worker) stats() {
	checks, stale := w.algorithm.checks()
	w.say("stats %d %d %d", checks, stale, w.stall.Duration())
}

// say writes a line. If the parent has ended, this process ends too, by SIGPIPE.
func (w *worker) say(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fmt.Fprintf(w.out, format+"\n", args...)
}

// numberKey is that of the number of a call, in a context.
type numberKey struct{}

// campaignOf returns the campaign of the call of a context.
func (w *worker) campaignOf(ctx context.Context) string {
	return w.campaign(ctx.Value(numberKey{}).(int))
}

// send makes the call n once.
func (w *worker) send(through http.RoundTripper, n int) error {
	header := http.Header{}
	ctx := httptrace.WithClientTrace(context.WithValue(context.Background(), numberKey{}, n), &httptrace.ClientTrace{
		// It is called before the request is written, and after the pacer has checked the permit.
		GotConn: func(httptrace.GotConnInfo) { program.SetSent(header) },
	})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.Vendor+"/call", http.NoBody)
	if err != nil {
		return err
	}
	header.Set("Idempotency-Key", w.key(n))
	header.Set("X-Campaign", w.campaign(n))
	req.Header = header
	resp, err := through.RoundTrip(req)
	if err != nil {
		return err
	}
	_ = resp.Body.Close() // wire has read it
	if resp.StatusCode != http.StatusNoContent {
		return fmt.Errorf("the vendor at %s answers %s to a call: must be 204", w.Vendor, resp.Status)
	}
	return nil
}

// A wire sends calls that have a permit.
type wire struct {
	w    *worker
	next http.RoundTripper
}

// RoundTrip says that the call is started, and sends it. The body of the response is empty.
func (t wire) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(req.Context(), answerTime)
	defer cancel()
	t.w.say("started %d", ctx.Value(numberKey{}))
	resp, err := t.next.RoundTrip(req.WithContext(ctx))
	if err != nil {
		return nil, fmt.Errorf("no answer from the vendor at %s: %w", t.w.Vendor, err)
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)) // so that the connection can be used again
	_ = resp.Body.Close()
	resp.Body = http.NoBody
	return resp, nil
}
