package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/examples/internal/demo"
	"github.com/gresil/gresil/outbound/batch"
	"github.com/gresil/gresil/outbound/gate"
	"github.com/gresil/gresil/outbound/jobs/asynqjobs"
	"github.com/gresil/gresil/stores/redisstore"
)

// An order has all that a worker must know.
type order struct {
	config

	Run    string // the name of the run
	Worker int    // from 0
	Added  bool   // its records were added before
}

// numbers calls f with the number of each record of the worker, many at a time, until one fails, or ctx ends. Each option has
// records in each worker.
func (o order) numbers(ctx context.Context, most int, f func(ctx context.Context, n int) error) error {
	going, fail := context.WithCancelCause(ctx)
	free := make(chan struct{}, most)
	var all sync.WaitGroup
	for n := 0; n < o.Records && going.Err() == nil; n++ {
		if n/o.Options%o.Processes != o.Worker {
			continue
		}
		free <- struct{}{}
		all.Go(func() {
			defer func() { <-free }()
			if err := f(going, n); err != nil {
				fail(err)
			}
		})
	}
	all.Wait()
	fail(ctx.Err())
	if err := context.Cause(going); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil // or the run ends
}

// These are times and counts of our own, which no scale changes.
const (
	someSlack  = 50 * time.Millisecond // of the gate; of a long minute, it is more
	answerTime = 10 * time.Second      // of the vendor
	leaseTime  = 90 * time.Second      // then another process takes the records of one that has ended

	adders      = 64  // records that are added at a time, of a worker
	concurrency = 32  // calls in flight, of a worker
	sockets     = 100 // likewise, of a control
)

const firstWait = 5 * time.Second // of the vendor, after a call that failed; it doubles

// slack returns the slack of the gate: it costs at most 5 % of the calls of a minute.
func slack(minute time.Duration) time.Duration {
	return max(min(someSlack, minute/20), minute/100)
}

// skew is the half of the slack that is for the network.
func skew(minute time.Duration) time.Duration { return slack(minute) / 2 }

// burst returns how many calls may be sent at once after a pause, such as one without CPU. It costs at most 4 % of the calls
// of a minute.
func burst(calls int) int64 { return 1 + int64(calls)/25 }

// A worker adds its records, and makes calls with records of any worker. It writes a line for each step:
//
//	called 1        a call was answered with results
//	refused 1       a call was over the limit
//	wrong 1 WHY     a call had no answer, or another one
//	served N KEY    N records of a call are accepted
//	bad 1 WHY       a record is not accepted
//	gave-up N       so many records have failed
//	failed 1 WHY    likewise, of the control
//
// It is ready when its records are added, begins to make calls when it reads the line "go", and ends with its input.
type worker struct {
	order
	*demo.Worker
	catalog map[string]string
	client  *http.Client
	redis   *redis.Client                    // or nil
	batcher *batch.Batcher[record, struct{}] // nil for the control
}

func work(ctx context.Context, told *demo.Worker) error {
	w := &worker{Worker: told}
	if err := told.Order(&w.order); err != nil {
		return err
	}
	w.catalog = catalog(w.Options)
	w.client = demo.NewClient(&http.Transport{MaxConnsPerHost: sockets, MaxIdleConnsPerHost: sockets})
	w.client.Timeout = answerTime
	if err := w.start(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w.Ready(ctx)
	if !w.Lines.Scan() {
		return w.stop(ctx)
	}
	ended := make(chan error, 1)
	go func() { ended <- w.run(ctx) }()
	w.Lines.Scan() // the end
	cancel()
	return errors.Join(<-ended, w.stop(ctx))
}

// start makes the batcher, and adds the records, unless this is the control.
func (w *worker) start(ctx context.Context) (err error) {
	if w.Algorithm == demo.Control {
		return nil
	}
	own := gate.Config{
		Name: "grouped-calls of " + w.Vendor, Slack: slack(w.minute()),
		Limits:  []gate.Limit{{N: int64(w.CallsPerMinute), Per: w.minute(), Burst: burst(w.CallsPerMinute)}},
		Backoff: backoff.Exponential{Delay: w.scaled(firstWait), Max: w.minute(), Jitter: 0.2},
	}
	cfg := batch.Config[record, struct{}]{
		Name: "grouped-calls " + w.Run, Option: func(r record) string { return r.option }, Send: w.send,
		MaxRecords: w.MaxRecords, Concurrency: concurrency, Backoff: own.Backoff, MaxPending: max(w.Records, 1),
	}
	if w.Redis != "" {
		logging.Disable() // go-redis would log each connection that fails
		w.redis = redis.NewClient(&redis.Options{Addr: w.Redis, DialerRetries: 1, PoolTimeout: time.Minute})
		if err := w.redis.Ping(ctx).Err(); err != nil {
			return fmt.Errorf("redis at %s: %w", w.Redis, err)
		}
		if own.Store, err = redisstore.New(w.redis, redisstore.Config{}); err != nil {
			return err
		}
		if cfg.Engine, err = asynqjobs.New(w.redis, asynqjobs.Config{}); err != nil {
			return err
		}
	}
	if cfg.Gate, err = gate.New(own); err != nil {
		return err
	}
	w.client.Transport = cfg.Gate.Transport(w.client.Transport)
	if w.batcher, err = batch.New(cfg); err != nil || w.Added {
		return err
	}
	w.Stats = func() { w.Say("gave-up", int(w.batcher.Stats().Failed), "") }
	return w.numbers(ctx, adders, func(ctx context.Context, n int) error { return w.add(ctx, newRecord(w.Run, n, w.Options)) })
}

// add is the call of the business code. It rejects a record whose option has no predefined arguments.
func (w *worker) add(ctx context.Context, r record) error {
	if _, ok := w.catalog[r.option]; !ok {
		return fmt.Errorf("unknown option %q: it must be one of the predefined ones, such as %q", r.option, optionName(0))
	}
	_, err := w.batcher.Add(ctx, r)
	return err
}

// run makes the calls, until ctx ends.
func (w *worker) run(ctx context.Context) error {
	if w.batcher == nil {
		return w.numbers(ctx, sockets, func(ctx context.Context, n int) error {
			w.single(ctx, newRecord(w.Run, n, w.Options))
			return nil
		})
	}
	if err := w.batcher.Flush(ctx); err != nil {
		return err
	}
	return w.batcher.Run(ctx)
}

// single makes a call of the control, which has one record. A call that is refused is not repeated.
func (w *worker) single(ctx context.Context, r record) {
	key := fmt.Sprintf("%s/%d", w.Run, r.Number)
	results, err := w.call(ctx, key, r.option, []record{r})
	if err == nil && len(results) != 1 {
		err = fmt.Errorf("the vendor answers with %d results to 1 record", len(results))
	}
	if err == nil && !results[0].OK {
		err = errors.New(results[0].Error)
	}
	if err != nil {
		w.Say("failed", 1, "%v", err)
		return
	}
	w.Say("served", 1, "%s", key)
}

// send makes one call of a group.
func (w *worker) send(ctx context.Context, option string, records []record) ([]batch.Result[struct{}], error) {
	key := batch.IdempotencyKey(ctx)
	answers, err := w.call(ctx, key, option, records)
	if err != nil {
		return nil, err
	}
	results, ok := make([]batch.Result[struct{}], len(answers)), 0
	for i, a := range answers {
		if a.OK {
			ok++
		} else {
			results[i].Err = core.Permanent(errors.New(a.Error))
			w.Say("bad", 1, "%s", a.Error)
		}
	}
	if len(answers) == len(records) {
		w.Say("served", ok, "%s", key)
	}
	return results, nil
}

// stop deletes the records that were not sent: no other run has the name of this one.
func (w *worker) stop(ctx context.Context) error {
	if w.redis == nil {
		return nil
	}
	defer func() { _ = w.redis.Close() }() // nothing is sent
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTime)
	defer cancel()
	groups, err := w.batcher.Groups(ctx)
	for _, group := range groups {
		if err == nil {
			_, err = w.batcher.Delete(ctx, group.Option)
		}
	}
	return err
}

// errRefused is the error of a call that was over the limit.
var errRefused = errors.New("the vendor refuses the call: it is over a limit")

// call makes one call. A call that is sent is waited for.
func (w *worker) call(ctx context.Context, key, option string, records []record) ([]result, error) {
	results, err := w.exchange(context.WithoutCancel(ctx), key, option, records)
	switch {
	case errors.Is(err, core.ErrRejected):
	case errors.Is(err, errRefused):
		w.Say("refused", 1, "")
	case err != nil:
		w.Say("wrong", 1, "%v", err)
	default:
		w.Say("called", 1, "")
	}
	return results, err
}

func (w *worker) exchange(ctx context.Context, key, option string, records []record) ([]result, error) {
	header := http.Header{"Content-Type": {"application/json"}, "Idempotency-Key": {key}}
	body, err := json.Marshal(call[record]{option, records})
	if err != nil {
		return nil, err
	}
	got, err := demo.Fetch(ctx, w.client, http.MethodPost, w.Vendor+"/merge?"+w.catalog[option], header, body)
	switch {
	case errors.Is(err, core.ErrRejected): // it was not sent
		return nil, err
	case err != nil:
		return nil, demo.NoAnswer(w.Vendor, err)
	case gate.Classify(got.Response, nil).Limited:
		return nil, errRefused
	case got.StatusCode == http.StatusBadRequest: // it will never be accepted as it is
		return nil, core.Permanent(fmt.Errorf("the vendor rejects the call: %s", bytes.TrimSpace(got.Text)))
	case got.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("the vendor at %s answers %s to a call: must be 200, 400 or 429", w.Vendor, got.Status)
	}
	var a answer
	if err := json.Unmarshal(got.Text, &a); err != nil {
		return nil, fmt.Errorf("the vendor at %s must answer with a JSON object that has the results: %w", w.Vendor, err)
	}
	return a.Results, nil
}
