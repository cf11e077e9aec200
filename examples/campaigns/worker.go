package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/examples/internal/demo"
	"github.com/gresil/gresil/outbound/gate"
	"github.com/gresil/gresil/outbound/jobs"
	"github.com/gresil/gresil/outbound/jobs/asynqjobs"
	"github.com/gresil/gresil/plugins/timeout"
	"github.com/gresil/gresil/stores/redisstore"
)

// campaign returns the name of the campaign of the call n. Campaigns take turns.
func (c config) campaign(n int) string { return fmt.Sprintf("%s-%d", c.Run, n%c.Campaigns+1) }

// key returns the name of the call n.
func (c config) key(n int) string { return c.campaign(n) + "/" + strconv.Itoa(n/c.Campaigns+1) }

// queue is that of the run.
func (c config) queue() string { return "campaigns:" + c.Run }

// job returns the job of the call n. Its ID is the Idempotency-Key. It stays in use: a worker that replaces another one feeds the
// same jobs.
func (c config) job(n int) jobs.Job {
	return jobs.Job{ID: c.key(n), Queue: c.queue(), Campaign: c.campaign(n), Payload: []byte(strconv.Itoa(n)), Retain: time.Hour}
}

// These are times and counts of our own.
const (
	slack      = 50 * time.Millisecond // of the gate: half of it is for a process that is late, half for the network
	skew       = slack / 2
	storeTime  = 2 * time.Second  // for a reply of Redis: workers can stall
	answerTime = 10 * time.Second // of the vendor
	mostCalled = 5000             // calls in flight, of a worker
)

// A worker makes calls. It writes a line for each step:
//
//	run N ATTEMPT    the handler of the call N begins
//	sent N           it is about to be sent
//	done N           it was served
//	failed N WHY
//	passed N         attempts that the gate has let pass
type worker struct {
	config
	*demo.Worker
	client *http.Client
}

// work makes the calls whose numbers are the input, and with the engine asynq those that other workers feed.
func work(ctx context.Context, told *demo.Worker) error {
	w := &worker{Worker: told}
	if err := told.Order(&w.config); err != nil {
		return err
	}
	limit := timeout.NewClient(core.Must(timeout.New(timeout.Config{Limit: answerTime})), timeout.ClientOptions{PerAttempt: true})
	queue := jobs.Queue{Handler: w.handle, Concurrency: min(mostCalled, max(100, 2*w.CPS/w.Workers))}
	transport := client.New(&http.Transport{MaxIdleConnsPerHost: queue.Concurrency}, limit)
	w.client = &http.Client{Transport: transport}
	var cfg jobs.Config
	if w.Algorithm != demo.Control {
		var err error
		if queue.Gate, cfg.Engine, err = w.open(); err != nil {
			return err
		}
		defer func() { _ = queue.Gate.Close(context.WithoutCancel(ctx)) }() // no call is left
		w.client.Transport = queue.Gate.Transport(transport)
		w.Stats = func() { w.Say("passed", int(queue.Gate.Stats().Sent), "") }
	}
	cfg.Queues = map[string]jobs.Queue{w.queue(): queue}
	runner, err := jobs.New(cfg)
	if err != nil {
		return err
	}
	var numbers []int
	if err := w.Begin(ctx, &numbers); err != nil {
		return err
	}
	go func() {
		_, _, _ = runner.Feed(ctx, func(yield func(jobs.Job) bool) { // it waits while Redis fails
			for _, n := range numbers {
				if !yield(w.job(n)) {
					return
				}
			}
		})
	}()
	return runner.Run(ctx)
}

// open makes the gate, which all workers share, and the engine, which is nil for the memory of the worker.
func (w *worker) open() (g *gate.Gate, engine *jobs.Engine, err error) {
	cfg := gate.Config{
		Name: "campaigns of " + w.Vendor, Slack: slack,
		Limits: []gate.Limit{{N: int64(w.CPS), Per: time.Second}},
	}
	if w.Redis != "" {
		logging.Disable() // go-redis would log each connection that fails
		connections := redis.NewClient(&redis.Options{Addr: w.Redis, PoolTimeout: time.Minute})
		store, err := redisstore.New(connections, redisstore.Config{Timeout: storeTime})
		if err != nil {
			return nil, nil, err
		}
		if cfg.Store = store; w.Engine == "asynq" {
			if engine, err = asynqjobs.New(connections, asynqjobs.Config{}); err != nil {
				return nil, nil, err
			}
		}
	}
	g, err = gate.New(cfg)
	return g, engine, err
}

// handle makes the call of a job. One that the vendor refuses because of its limit, or that is not sent, is made again.
func (w *worker) handle(ctx context.Context, job jobs.Job) error {
	n, _ := strconv.Atoi(string(job.Payload)) // we wrote it
	w.Say("run", n, "%d", job.Attempt)
	header := http.Header{"Idempotency-Key": {job.ID}, "X-Campaign": {job.Campaign}}
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		// It is called before the request is written, and after the last check of the gate.
		GotConn: func(httptrace.GotConnInfo) { w.Say("sent", n, "") },
	})
	a, err := demo.Fetch(traced, w.client, http.MethodPost, w.Vendor+"/call", header, nil)
	switch {
	case errors.Is(err, core.ErrRejected):
		return err
	case err == nil && a.StatusCode == http.StatusNoContent:
		w.Say("done", n, "")
		return nil
	case err == nil:
		err = fmt.Errorf("the vendor at %s answers %s to a call: must be 204", w.Vendor, a.Status)
		if w.Algorithm != demo.Control && gate.Classify(a.Response, nil).Limited {
			return err
		}
	}
	w.Say("failed", n, "%v", err)
	return core.Permanent(err)
}
