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

// An order has all that a worker must know.
type order struct {
	config

	Run   string // the name of the run
	Ahead int    // calls that a worker has at a time
}

// campaign returns the name of the campaign of the call n.
func (o order) campaign(n int) string { return fmt.Sprintf("%s-%d", o.Run, n%o.Campaigns+1) }

// key returns the name of the call n.
func (o order) key(n int) string { return o.campaign(n) + "/" + strconv.Itoa(n/o.Campaigns+1) }

// queue is that of the run.
func (o order) queue() string { return "campaigns:" + o.Run }

// job returns the job of the call n. Its ID is the Idempotency-Key.
func (o order) job(n int) jobs.Job {
	return jobs.Job{ID: o.key(n), Queue: o.queue(), Campaign: o.campaign(n), Payload: []byte(strconv.Itoa(n))}
}

// newEngine returns the engine asynq, or none for the memory of the process.
func (o order) newEngine() (*jobs.Engine, *redis.Client, error) {
	if o.Engine != "asynq" {
		return nil, nil, nil
	}
	client := redis.NewClient(&redis.Options{Addr: o.Redis, PoolTimeout: time.Minute})
	engine, err := asynqjobs.New(client, asynqjobs.Config{})
	return engine, client, err
}

const forgetTime = 10 * time.Second // to remove the queue

// forget removes all keys of the queue. asynq itself would keep its counts, and also all jobs if a worker that was killed
// has one.
func (o order) forget(ctx context.Context, client *redis.Client) {
	ctx, cancel := context.WithTimeout(ctx, forgetTime)
	defer cancel()
	for keys := client.Scan(ctx, 0, "asynq:{"+o.queue()+"}:*", 1000).Iterator(); keys.Next(ctx); {
		_ = client.Unlink(ctx, keys.Val()) // Redis can be gone
	}
	_ = client.SRem(ctx, "asynq:queues", o.queue())
}

const (
	slack      = 50 * time.Millisecond // of the gate: half of it is for a process that is late, half for the network
	storeTime  = 2 * time.Second       // for a reply of Redis: workers can stall
	answerTime = 10 * time.Second      // of the vendor
)

// A worker makes the calls of its jobs: those whose numbers it reads, or with the engine asynq, those in Redis. It writes a
// line for each step of a call:
//
//	run N ATTEMPT    its handler begins
//	started N        it is about to be sent
//	done N           it was served
//	failed N WHY
//	passed N         attempts that the gate has let pass
type worker struct {
	order
	*demo.Worker
	client *http.Client
	gate   *gate.Gate // nil for the control
}

// work makes calls until the input ends or the jobs cannot be run, and waits for those that are sent.
func work(ctx context.Context, told *demo.Worker) error {
	w := &worker{Worker: told}
	if err := told.Order(&w.order); err != nil {
		return err
	}
	limit := timeout.NewClient(core.Must(timeout.New(timeout.Config{Limit: answerTime})), timeout.ClientOptions{PerAttempt: true})
	w.client = demo.NewClient(client.New(&http.Transport{MaxIdleConnsPerHost: w.Ahead}, limit))
	if w.Algorithm != demo.Control {
		if err := w.open(ctx); err != nil {
			return err
		}
		defer func() { _ = w.gate.Close(context.WithoutCancel(ctx)) }() // no call is left
	}
	engine, _, err := w.newEngine()
	if err != nil {
		return err
	}
	runner, err := jobs.New(jobs.Config{Engine: engine, Queues: map[string]jobs.Queue{
		w.queue(): {Handler: w.handle, Gate: w.gate, Concurrency: w.Ahead},
	}})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ran := make(chan error, 1)
	go func() { ran <- runner.Run(ctx) }()
	w.Ready(ctx)
	for w.Lines.Scan() {
		n, err := strconv.Atoi(w.Lines.Text())
		if err != nil {
			return err
		}
		if _, err := runner.Enqueue(ctx, w.job(n)); err != nil {
			return err
		}
	}
	stop()
	return errors.Join(w.Lines.Err(), <-ran)
}

// open makes the gate, which all workers share.
func (w *worker) open(ctx context.Context) (err error) {
	cfg := gate.Config{
		Name: "campaigns of " + w.Vendor, Slack: slack,
		Limits: []gate.Limit{{N: int64(w.CPS), Per: time.Second}},
	}
	if w.Redis != "" {
		logging.Disable() // go-redis would log each connection that fails
		store, err := redisstore.New(redis.NewClient(&redis.Options{Addr: w.Redis, PoolTimeout: time.Minute}), redisstore.Config{Timeout: storeTime})
		if err != nil {
			return err
		}
		if err := store.Check(ctx); err != nil {
			return err
		}
		cfg.Store = store
	}
	if w.gate, err = gate.New(cfg); err != nil {
		return err
	}
	w.client.Transport = w.gate.Transport(w.client.Transport)
	w.Stats = func() { w.Say("passed", int(w.gate.Stats().Sent), "") }
	return nil
}

// handle makes the call of a job. One that the vendor refuses because of its limit, or that is not sent, is made again.
func (w *worker) handle(ctx context.Context, job jobs.Job) error {
	n, err := strconv.Atoi(string(job.Payload))
	if err != nil {
		return core.Permanent(err)
	}
	w.Say("run", n, "%d", job.Attempt)
	header := http.Header{"Idempotency-Key": {w.key(n)}, "X-Campaign": {w.campaign(n)}}
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		// It is called before the request is written, and after the last check of the gate.
		GotConn: func(httptrace.GotConnInfo) { w.Say("started", n, "") },
	})
	a, err := demo.Fetch(traced, w.client, http.MethodPost, w.Vendor+"/call", header, nil)
	switch {
	case errors.Is(err, core.ErrRejected):
		return err
	case err != nil:
		err = demo.NoAnswer(w.Vendor, err)
	case a.StatusCode == http.StatusNoContent:
		w.Say("done", n, "")
		return nil
	default:
		err = fmt.Errorf("the vendor at %s answers %s to a call: must be 204", w.Vendor, a.Status)
		if w.gate != nil && gate.Classify(a.Response, nil).Limited {
			return err
		}
	}
	w.Say("failed", n, "%v", err)
	return core.Permanent(err)
}
