package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"golang.org/x/sync/errgroup"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/examples/internal/demo"
	"github.com/gresil/gresil/outbound/batch"
	"github.com/gresil/gresil/outbound/gate"
	"github.com/gresil/gresil/outbound/jobs/asynqjobs"
	"github.com/gresil/gresil/stores/redisstore"
)

// A record is one that the program adds. No two are equal, in all runs.
type record struct {
	Run    string `json:"run"`
	Number int    `json:"number"`
	Email  string `json:"email"`
}

// An order has all that a worker must know.
type order struct {
	config

	Run   string // the name of the run
	Place int    // of the worker
	Added bool   // its records were added before
}

// modes are the predefined arguments of the vendor's method. An option is a list and a mode.
var modes = [...]string{"upsert", "insert", "update", "replace"}

// optionName returns the name of an option. The records take the options in turn.
func optionName(i int) string { return fmt.Sprintf("list-%d:%s", i/len(modes)+1, modes[i%len(modes)]) }

// arguments returns those of an option, as a query.
func arguments(option string) string {
	list, mode, _ := strings.Cut(option, ":")
	return url.Values{"method": {"merge"}, "list": {list}, "match": {"email"}, "mode": {mode}}.Encode()
}

// These are times and counts of our own, which no scale changes.
const (
	someSlack   = 50 * time.Millisecond // of the gate; of a long minute, it is more
	answerTime  = 10 * time.Second      // of the vendor
	adders      = 64                    // records that are added at a time, of a worker
	concurrency = 32                    // calls in flight, of a worker
	sockets     = 100                   // likewise, of a control
)

const firstWait = 5 * time.Second // of the vendor, after a call that failed; it doubles

// slack returns the slack of the gate: it costs at most 5 % of the calls of a minute. Half of it is for the network.
func slack(minute time.Duration) time.Duration {
	return max(min(someSlack, minute/20), minute/100)
}

// A worker adds its records, and makes calls with records of any worker. It writes a line for each step:
//
//	called 1        a call was answered with results
//	refused 1       a call was over the limit
//	wrong 1 WHY     a call had no answer, or another one; or a record is not accepted
//	served N KEY    N records of a call are accepted
//	gave-up N       so many records have failed
type worker struct {
	order
	*demo.Worker
	client *http.Client
}

func work(ctx context.Context, told *demo.Worker) error {
	w := &worker{Worker: told}
	if err := told.Order(&w.order); err != nil {
		return err
	}
	w.client = &http.Client{Transport: &http.Transport{MaxConnsPerHost: sockets, MaxIdleConnsPerHost: sockets}, Timeout: answerTime}
	cfg := batch.Config[record, struct{}]{
		Name: "grouped-calls " + w.Run, Option: func(r record) string { return optionName(r.Number % w.Options) }, Send: w.send,
		MaxRecords: w.MaxRecords, Concurrency: concurrency, MaxPending: w.Records,
		Backoff: backoff.Exponential{Delay: w.scaled(firstWait), Max: w.minute(), Jitter: 0.2},
	}
	if w.Algorithm == demo.Control {
		cfg.MaxRecords, cfg.Concurrency, cfg.MaxAttempts = 1, sockets, 1
	} else if err := w.open(&cfg); err != nil {
		return err
	}
	batcher, err := batch.New(cfg)
	if err != nil {
		return err
	}
	defer w.forget(context.WithoutCancel(ctx), batcher)
	w.Stats = func() { w.Say("gave-up", int(batcher.Stats().Failed), "") }
	if err := w.add(ctx, batcher); err != nil {
		return err
	}
	var begin bool
	if err := w.Begin(ctx, &begin); err != nil {
		return err
	}
	if err := batcher.Flush(ctx); err != nil {
		return err
	}
	return batcher.Run(ctx)
}

// add is the business code: it adds the records of the worker one by one, unless another worker has added them before.
func (w *worker) add(ctx context.Context, batcher *batch.Batcher[record, struct{}]) error {
	adding, each := errgroup.WithContext(ctx)
	adding.SetLimit(adders)
	for n := 0; n < w.Records && !w.Added && each.Err() == nil; n++ {
		if n/w.Options%w.Processes == w.Place { // each option has records in each worker
			adding.Go(func() error {
				_, err := batcher.Add(each, record{Run: w.Run, Number: n, Email: fmt.Sprintf("%s-%d@example.com", w.Run, n)})
				return err
			})
		}
	}
	if err := adding.Wait(); err != nil {
		return err
	}
	return context.Cause(ctx) // records can be missing
}

// open makes the gate, and with Redis the engine, which several processes share.
func (w *worker) open(cfg *batch.Config[record, struct{}]) (err error) {
	own := gate.Config{
		Name: "grouped-calls of " + w.Vendor, Slack: slack(w.minute()), Backoff: cfg.Backoff,
		// A Burst makes up for a pause, such as one without CPU. It costs at most 4 % of the calls of a minute.
		Limits: []gate.Limit{{N: int64(w.CallsPerMinute), Per: w.minute(), Burst: 1 + int64(w.CallsPerMinute)/25}},
	}
	if w.Redis != "" {
		logging.Disable() // go-redis would log each connection that fails
		connections := redis.NewClient(&redis.Options{Addr: w.Redis, DialerRetries: 1, PoolTimeout: time.Minute})
		if own.Store, err = redisstore.New(connections, redisstore.Config{}); err != nil {
			return err
		}
		if cfg.Engine, err = asynqjobs.New(connections, asynqjobs.Config{}); err != nil {
			return err
		}
	}
	if cfg.Gate, err = gate.New(own); err != nil {
		return err
	}
	w.client.Transport = cfg.Gate.Transport(w.client.Transport)
	return nil
}

// forget deletes the records that were not sent: no other run has the name of this one.
func (w *worker) forget(ctx context.Context, batcher *batch.Batcher[record, struct{}]) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	groups, _ := batcher.Groups(ctx) // Redis can be gone
	for _, group := range groups {
		_, _ = batcher.Delete(ctx, group.Option)
	}
}

// send makes one call of a group. A call that is sent is waited for.
func (w *worker) send(ctx context.Context, option string, records []record) ([]batch.Result[struct{}], error) {
	key := batch.IdempotencyKey(ctx)
	answers, err := w.call(ctx, key, option, records)
	switch {
	case errors.Is(err, core.ErrRejected): // it was not sent
	case errors.Is(err, errRefused):
		w.Say("refused", 1, "")
	case err != nil:
		w.Say("wrong", 1, "%v", err)
	default:
		w.Say("called", 1, "")
	}
	if err != nil {
		return nil, err
	}
	results, ok := make([]batch.Result[struct{}], len(answers)), 0
	for i, a := range answers {
		if a.OK {
			ok++
		} else {
			results[i].Err = core.Permanent(errors.New(a.Error))
			w.Say("wrong", 1, "%s", a.Error)
		}
	}
	if len(answers) == len(records) {
		w.Say("served", ok, "%s", key)
	}
	return results, nil
}

// errRefused is the error of a call that was over the limit.
var errRefused = errors.New("the vendor refuses the call: it is over a limit")

func (w *worker) call(ctx context.Context, key, option string, records []record) ([]result, error) {
	header := http.Header{"Content-Type": {"application/json"}, "Idempotency-Key": {key}}
	body, err := json.Marshal(call[record]{option, records})
	if err != nil {
		return nil, err
	}
	got, err := demo.Fetch(ctx, w.client, http.MethodPost, w.Vendor+"/merge?"+arguments(option), header, body)
	switch {
	case err != nil:
		return nil, err
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
