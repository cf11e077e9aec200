package main

import (
	"context"
	"errors"
	"iter"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/outbound/jobs"
	"github.com/gresil/gresil/outbound/jobs/asynqjobs"
)

const forgetTime = 10 * time.Second // to remove the queue

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

// newJobs returns the runner of a worker.
func newJobs(w *worker) (*jobs.Runner, error) {
	engine, _, err := w.newEngine()
	if err != nil {
		return nil, err
	}
	concurrency := w.Sockets // calls that wait for their permit count
	if engine == nil {
		concurrency = 1 << 16 // the dealer bounds them
	}
	return jobs.New(jobs.Config{Engine: engine, Queues: map[string]jobs.Queue{w.queue(): {Handler: w.handle, Concurrency: concurrency}}})
}

// handle makes the call of a job.
func (w *worker) handle(_ context.Context, job jobs.Job) error {
	n, err := strconv.Atoi(string(job.Payload))
	if err != nil {
		return core.Permanent(err)
	}
	w.say("run %d %d", n, job.Attempt)
	switch err := w.algorithm.call(n); {
	case err == nil:
		w.say("done %d", n)
		return nil
	case errors.Is(err, errStopped), w.Engine == "asynq" && errors.Is(err, core.ErrRejected):
		return err // the job runs again
	default:
		w.say("failed %d %s", n, strings.ReplaceAll(err.Error(), "\n", " "))
		return core.Permanent(err)
	}
}

// jobsOf iterates over the jobs of a campaign.
func (c *crew) jobsOf(campaign int) iter.Seq[jobs.Job] {
	return func(yield func(jobs.Job) bool) {
		for n := campaign; n < c.total(); n += c.campaigns {
			if !yield(c.job(n)) {
				return
			}
		}
	}
}

// feeder sets feed, which feeds the campaigns to the engine asynq. stop ends it, and removes the queue.
func (c *crew) feeder(ctx context.Context, fail context.CancelCauseFunc) (stop func(), err error) {
	c.feed = func() {}
	engine, client, err := c.newEngine()
	if engine == nil || err != nil {
		return func() {}, err
	}
	runner, err := jobs.New(jobs.Config{Engine: engine})
	if err != nil {
		return nil, err
	}
	var feeding sync.WaitGroup
	c.feed = func() {
		for campaign := range c.campaigns {
			feeding.Go(func() {
				_, _, err := runner.Feed(ctx, c.jobsOf(campaign))
				if err != nil && !errors.Is(err, jobs.ErrClosed) && ctx.Err() == nil {
					fail(err)
				}
			})
		}
	}
	return func() {
		_ = runner.Close(ctx) // nothing runs
		feeding.Wait()
		c.forget(context.WithoutCancel(ctx), client)
		_ = client.Close()
	}, nil
}

// forget removes all keys of the queue. asynq itself would keep its counts, and also all jobs if a worker
// that was killed has one.
func (o order) forget(ctx context.Context, client *redis.Client) {
	ctx, cancel := context.WithTimeout(ctx, forgetTime)
	defer cancel()
	for keys := client.Scan(ctx, 0, "asynq:{"+o.queue()+"}:*", 1000).Iterator(); keys.Next(ctx); {
		_ = client.Unlink(ctx, keys.Val()) // Redis can be gone
	}
	_ = client.SRem(ctx, "asynq:queues", o.queue())
}
