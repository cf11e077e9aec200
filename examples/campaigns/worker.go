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
	"github.com/gresil/gresil/outbound/jobs"
	"github.com/gresil/gresil/outbound/jobs/asynqjobs"
	"github.com/gresil/gresil/outbound/pace"
	"github.com/gresil/gresil/plugins/timeout"
	"github.com/gresil/gresil/stores/redisstore"
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
	Ahead     int // calls that a worker has at a time
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
func (o order) newEngine() (jobs.Engine, *redis.Client, error) {
	if o.Engine != "asynq" {
		return nil, nil, nil
	}
	client := redis.NewClient(&redis.Options{Addr: o.Redis, PoolTimeout: time.Minute})
	engine, err := asynqjobs.New(client, asynqjobs.Config{Repair: true})
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
	slack      = 50 * time.Millisecond // of a permit
	skew       = 20 * time.Millisecond // of two calls on their way
	storeTime  = 2 * time.Second       // for a reply of Redis: workers can stall
	patience   = 30 * time.Second      // of a call without a permit, while Redis is unavailable
	again      = 100 * time.Millisecond
	answerTime = 10 * time.Second // of the vendor
)

// A worker makes the calls of its jobs: those whose numbers it reads, or with the engine asynq, those in Redis. It writes a
// line for each step of a call:
//
//	run N ATTEMPT    its handler begins
//	started N        it is about to be sent
//	done N           it was served
//	failed N WHY
//	decided N        decisions of the limiter
//	stale N          permits that were not used
type worker struct {
	order
	*demo.Worker
	client *http.Client
	pacer  *pace.Pacer       // nil for the control
	store  *redisstore.Store // or nil
}

// work makes calls until the input ends or the jobs cannot be run, and waits for those that are sent.
func work(ctx context.Context, told *demo.Worker) error {
	w := &worker{Worker: told}
	if err := told.Order(&w.order); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	limit := timeout.NewClient(core.Must(timeout.New(timeout.Config{Limit: answerTime})), timeout.ClientOptions{PerAttempt: true})
	w.client = demo.NewClient(client.New(&http.Transport{MaxIdleConnsPerHost: w.Ahead}, limit))
	if err := w.pace(); err != nil {
		return err
	}
	runner, err := w.newJobs(ctx)
	if err != nil {
		return err
	}
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
	if w.pacer != nil {
		_ = w.pacer.Close() // always nil
	}
	stop()
	return errors.Join(w.Lines.Err(), <-ran)
}

// pace makes calls wait for the limit, unless this is the control.
func (w *worker) pace() (err error) {
	if w.Algorithm == demo.Control {
		return nil
	}
	logging.Disable() // go-redis would log each connection that fails
	cfg := pace.Config{
		Name: "campaigns", Rates: []pace.Rate{{Calls: int64(w.CPS), Per: time.Second}}, Slack: slack, Skew: skew,
		Fair: func(ctx context.Context) string { return w.campaign(number(ctx)) },
		Key:  func(*http.Request) string { return w.Vendor },
	}
	if w.Redis != "" {
		client := redis.NewClient(&redis.Options{Addr: w.Redis, PoolTimeout: time.Minute})
		if w.store, err = redisstore.New(client, redisstore.Config{Mode: redisstore.Coalesced, Timeout: storeTime}); err != nil {
			return err
		}
		if err := w.store.Check(context.Background()); err != nil {
			return err
		}
		cfg.Store = w.store
	}
	if w.pacer, err = pace.New(cfg); err != nil {
		return err
	}
	w.client.Transport = w.pacer.Transport(w.client.Transport)
	w.Stats = func() {
		s := w.pacer.Stats()
		decided := s.Permits + s.Stale
		if w.store != nil {
			decided = w.store.Stats().Decided
		}
		w.Say("decided", int(decided), "")
		w.Say("stale", int(s.Stale), "")
	}
	return nil
}

// newJobs returns the runner of a worker. ctx is that of calls that are not sent yet.
func (w *worker) newJobs(ctx context.Context) (*jobs.Runner, error) {
	engine, _, err := w.newEngine()
	if err != nil {
		return nil, err
	}
	handle := func(_ context.Context, job jobs.Job) error { return w.handle(ctx, job) }
	return jobs.New(jobs.Config{Engine: engine, Queues: map[string]jobs.Queue{w.queue(): {Handler: handle, Concurrency: w.Ahead}}})
}

// handle makes the call of a job.
func (w *worker) handle(ctx context.Context, job jobs.Job) error {
	n, err := strconv.Atoi(string(job.Payload))
	if err != nil {
		return core.Permanent(err)
	}
	w.Say("run", n, "%d", job.Attempt)
	switch err := w.call(ctx, n); {
	case err == nil:
		w.Say("done", n, "")
		return nil
	case ctx.Err() != nil, w.Engine == "asynq" && errors.Is(err, core.ErrRejected):
		return err // the job runs again
	default:
		w.Say("failed", n, "%v", err)
		return core.Permanent(err)
	}
}

// call repeats a call that was not made because the store failed.
func (w *worker) call(ctx context.Context, n int) error {
	for start := time.Now(); ; {
		err := w.send(context.WithoutCancel(ctx), n)
		if err == nil || !errors.Is(err, core.ErrRejected) || time.Since(start) > patience {
			return err
		}
		if err := demo.Sleep(ctx, again); err != nil {
			return err
		}
	}
}

// numberKey is that of the number of a call, in a context.
type numberKey struct{}

func number(ctx context.Context) int { return ctx.Value(numberKey{}).(int) }

// send makes the call n once, and waits for it.
func (w *worker) send(ctx context.Context, n int) error {
	header := http.Header{"Idempotency-Key": {w.key(n)}, "X-Campaign": {w.campaign(n)}}
	ctx = httptrace.WithClientTrace(context.WithValue(ctx, numberKey{}, n), &httptrace.ClientTrace{
		// It is called before the request is written, and after the last check of the permit.
		GotConn: func(httptrace.GotConnInfo) {
			w.Say("started", n, "")
			demo.SetSent(header)
		},
	})
	a, err := demo.Fetch(ctx, w.client, http.MethodPost, w.Vendor+"/call", header, nil)
	switch {
	case errors.Is(err, core.ErrRejected): // it was not sent
		return err
	case err != nil:
		return demo.NoAnswer(w.Vendor, err)
	case a.StatusCode != http.StatusNoContent:
		return fmt.Errorf("the vendor at %s answers %s to a call: must be 204", w.Vendor, a.Status)
	}
	return nil
}
