package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/examples/internal/program"
	"github.com/gresil/gresil/outbound/batch"
	"github.com/gresil/gresil/outbound/jobs/asynqjobs"
	"github.com/gresil/gresil/outbound/pace"
	"github.com/gresil/gresil/stores/redisstore"
)

const (
	someSlack = 50 * time.Millisecond // of a permit; of a long minute, it is more
	mostSkew  = 20 * time.Millisecond // of two calls on their way

	adders      = 64               // records that are added at a time, of a worker
	concurrency = 32               // calls in flight, of a worker
	leaseTime   = 90 * time.Second // then another process takes the records of one that has ended
	attempts    = 20               // of a record
	firstWait   = 5 * time.Second  // of the vendor, after a call that failed; it doubles
	waitTime    = time.Hour        // of a call for its permit
)

// slack returns the shelf life of a permit: with skew, it costs at most 7 % of the calls of a minute.
func slack(minute time.Duration) time.Duration {
	return max(min(someSlack, minute/20), minute/100)
}

func skew(minute time.Duration) time.Duration { return min(mostSkew, minute/50) }

// burst returns how many calls may be sent at once after a pause, such as one without CPU. It costs at
// most 4 % of the calls of a minute.
func burst(calls int) int64 { return 1 + int64(calls)/25 }

// grouped is the algorithm gresil.
type grouped struct {
	*worker
	redis   *redis.Client // or nil
	pacer   *pace.Pacer
	batcher *batch.Batcher[record, struct{}]
	ending  context.Context //nolint:containedctx // that of run, which ends the waits for permits
	failed  uint64          // records that were reported
}

func newGrouped(ctx context.Context, w *worker) (*grouped, error) {
	pacing := pace.Config{
		Name: "grouped-calls", Slack: slack(w.minute()), Skew: skew(w.minute()),
		Rates: []pace.Rate{{Calls: int64(w.CallsPerMinute), Per: w.minute(), Burst: burst(w.CallsPerMinute)}},
	}
	g := &grouped{worker: w}
	cfg := batch.Config[record, struct{}]{
		Name: "grouped-calls " + w.Run, Option: func(r record) string { return r.option }, Send: g.send,
		MaxRecords: w.MaxRecords, Concurrency: concurrency, Timeout: waitTime, MaxAttempts: attempts,
		Backoff: backoff.Exponential{Delay: scaled(firstWait, w.Scale), Max: w.minute(), Jitter: 0.2},
	}
	var err error
	if w.Redis != "" {
		if g.redis, err = newRedis(ctx, w.Redis); err != nil {
			return nil, err
		}
		if pacing.Store, err = redisstore.New(g.redis, redisstore.Config{Mode: redisstore.Coalesced}); err != nil {
			return nil, err
		}
		if cfg.Engine, err = asynqjobs.New(g.redis, asynqjobs.Config{}); err != nil {
			return nil, err
		}
	}
	if g.pacer, err = pace.New(pacing); err != nil { //nolint:contextcheck // it starts nothing
		return nil, err
	}
	if g.batcher, err = batch.New(cfg); err != nil {
		return nil, err
	}
	return g, nil
}

// newRedis returns a client of a Redis that is available.
func newRedis(ctx context.Context, addr string) (*redis.Client, error) {
	logging.Disable() // go-redis would log each connection that fails
	client := redis.NewClient(&redis.Options{Addr: addr, DialerRetries: 1, PoolTimeout: time.Minute})
	if err := client.Ping(ctx).Err(); err != nil {
		return nil, fmt.Errorf("redis at %s: %w", addr, err)
	}
	return client, nil
}

// add adds the records of the worker, many at a time: the store in Redis sends them together.
func (g *grouped) add(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	numbers := make(chan int)
	var all sync.WaitGroup
	for range adders {
		all.Go(func() {
			for n := range numbers {
				if err := g.addOne(ctx, newRecord(g.Run, n, g.Options)); err != nil {
					cancel(err)
				}
			}
		})
	}
	err := g.numbers(func(n int) error {
		select {
		case numbers <- n:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	close(numbers)
	all.Wait()
	if err == nil {
		err = context.Cause(ctx)
	}
	return err
}

// addOne is the call of the business code. It rejects a record whose option has no predefined arguments.
func (g *grouped) addOne(ctx context.Context, r record) error {
	if _, ok := g.catalog[r.option]; !ok {
		return &unknownOptionError{r.option}
	}
	_, err := g.batcher.Add(ctx, r)
	return err
}

// send makes one call of a group.
func (g *grouped) send(ctx context.Context, option string, records []record) ([]batch.Result[struct{}], error) {
	key := batch.IdempotencyKey(ctx)
	waits, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(g.ending, cancel)() //nolint:contextcheck // it ends the wait too
	if _, err := g.pacer.Wait(waits, g.Vendor+" "+method, 1); err != nil {
		return nil, err
	}
	answers, err := g.call(ctx, key, option, records)
	if _, ok := errors.AsType[*malformedError](err); ok {
		return nil, core.Permanent(err)
	}
	if err != nil {
		return nil, err
	}
	results := make([]batch.Result[struct{}], len(answers))
	for i, a := range answers {
		if !a.OK {
			results[i].Err = core.Permanent(errors.New(a.Error))
		}
	}
	if len(answers) == len(records) {
		g.say("served %d %s", accepted(answers, len(records)), key)
	}
	return results, nil
}

func (g *grouped) run(ctx context.Context) error {
	g.ending = ctx
	if err := g.batcher.Flush(ctx); err != nil {
		return err
	}
	go program.Repeat(ctx, reportTime, g.report)
	return g.batcher.Run(ctx)
}

// report reports the records that have failed.
func (g *grouped) report() {
	failed := g.batcher.Stats().Failed
	n := failed - g.failed
	if n == 0 {
		return
	}
	g.failed = failed
	err := errors.New("a record has failed")
	for option := range g.catalog {
		for f, listed := range g.batcher.Failed(context.Background(), option) {
			if listed == nil {
				err = f.Err
			}
			break
		}
	}
	g.fail(int(n), err)
}

// stop deletes the records that were not sent: no other run has the name of this one.
func (g *grouped) stop() error {
	if g.redis == nil {
		return nil
	}
	defer func() { _ = g.redis.Close() }() // nothing is sent
	ctx, cancel := context.WithTimeout(context.Background(), answerTime)
	defer cancel()
	groups, err := g.batcher.Groups(ctx)
	for _, group := range groups {
		if err == nil {
			_, err = g.batcher.Delete(ctx, group.Option)
		}
	}
	return err
}
