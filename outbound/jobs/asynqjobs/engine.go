package asynqjobs

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/failover"
	"github.com/gresil/gresil/internal/identity"
	"github.com/gresil/gresil/outbound/jobs"
)

// The headers of a task.
const (
	headerMax      = "gresil-max"
	headerCampaign = "gresil-campaign"
	headerAt       = "gresil-not-before"
	headerRetain   = "gresil-retain"
	headerLost     = "gresil-lost" // of a job that was lost with its process, until it is done
)

// defaultMaxAttempts is that of a job without headerMax.
const defaultMaxAttempts = 5

// forever is the timeout of a task: asynq abandons a handler at its end, so the runner ends the
// context of an attempt instead.
const forever = 10 * 365 * 24 * time.Hour

// An Engine keeps jobs in Redis. It is safe for concurrent use, and has nothing to close.
type Engine struct {
	redis     redis.UniversalClient
	conns     failover.Conns
	client    *asynq.Client
	inspector *asynq.Inspector
	config    Config
	trial     chan struct{} // has an element while a suspect runs
}

var _ jobs.Engine = (*Engine)(nil)

// New makes an engine over a client, which the caller closes after the last use. The error is that of
// [Config.Validate], or a [*core.ConfigError] without a client.
func New(client redis.UniversalClient, cfg Config) (*Engine, error) {
	if identity.Missing(client) {
		return nil, &core.ConfigError{Field: "asynqjobs.New", Value: nil, Reason: "needs a client"}
	}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Engine{
		redis: client, client: asynq.NewClientFromRedisClient(client), inspector: asynq.NewInspectorFromRedisClient(client),
		config: cfg.withDefaults(), trial: make(chan struct{}, 1),
	}, nil
}

// Enqueue implements [jobs.Engine].
func (e *Engine) Enqueue(ctx context.Context, job jobs.Job) error {
	options := make([]asynq.Option, 0, 6)
	options = append(options, asynq.Queue(job.Queue), asynq.TaskID(job.ID), asynq.MaxRetry(math.MaxInt32), asynq.Timeout(forever))
	if job.Retain > 0 {
		options = append(options, asynq.Retention(job.Retain+time.Second-1)) // it counts whole seconds
	}
	if job.NotBefore.After(time.Now()) {
		options = append(options, asynq.ProcessAt(nextSecond(job.NotBefore)))
	}
	task := asynq.NewTaskWithHeaders(job.Kind, job.Payload, headersOf(job))
	for {
		err := e.send(ctx, func() error {
			_, err := e.client.EnqueueContext(ctx, task, options...)
			return err
		})
		if err == nil {
			return nil
		}
		if !errors.Is(err, asynq.ErrTaskIDConflict) {
			return failed(ctx, err)
		}
		var free int
		err = e.send(ctx, func() (err error) {
			free, err = freeScript.Run(ctx, e.redis, []string{prefix(job.Queue)}, job.ID, time.Now().Unix()).Int()
			return err
		})
		switch {
		case err != nil:
			return failed(ctx, err)
		case free == 0:
			return jobs.ErrExists
		}
	}
}

// send calls f, and again over another connection if the server has refused it because it is not the
// primary.
func (e *Engine) send(ctx context.Context, f func() error) error {
	return e.conns.Do(ctx, e.redis, func() error { return refusal(f()) })
}

// refusal returns the reply of a server that is not the primary without the text that asynq puts before
// it: asynq keeps only the text.
func refusal(err error) error {
	if err == nil {
		return nil
	}
	_, text, _ := strings.Cut(err.Error(), "redis eval error: ")
	if reply := errors.New(text); failover.Refused(reply) {
		return reply
	}
	return err
}

// freeScript removes a task that has failed, or that is done and whose retention is over: the janitor
// of asynq runs only beside a handler. It reports whether its ID is free. If the process ends before it
// has enqueued the new job, the failed one is gone, and Enqueue has not returned.
//
//nolint:gochecknoglobals // a constant
var freeScript = redis.NewScript(`
local prefix, id = KEYS[1], ARGV[1]
local key = prefix .. "t:" .. id
local state = redis.call("HGET", key, "state")
if not state then return redis.call("EXISTS", key) == 0 and 1 or 0 end
local till = state == "completed" and redis.call("ZSCORE", prefix .. "completed", id)
if state ~= "archived" and not (till and tonumber(till) <= tonumber(ARGV[2])) then return 0 end
redis.call("ZREM", prefix .. state, id)
local unique = redis.call("HGET", key, "unique_key") -- of a task of another client
if unique and unique ~= "" and redis.call("GET", unique) == id then redis.call("DEL", unique) end
redis.call("DEL", key)
return 1`)

// headersOf returns the fields of a job that a task does not have. Most jobs need none.
func headersOf(job jobs.Job) map[string]string {
	if job.MaxAttempts == defaultMaxAttempts && job.Campaign == "" && job.Retain == 0 && job.NotBefore.IsZero() {
		return nil
	}
	headers := map[string]string{headerMax: strconv.Itoa(job.MaxAttempts)}
	if job.Campaign != "" {
		headers[headerCampaign] = job.Campaign
	}
	if job.Retain > 0 {
		headers[headerRetain] = strconv.FormatInt(int64(job.Retain), 10)
	}
	if !job.NotBefore.IsZero() {
		headers[headerAt] = strconv.FormatInt(job.NotBefore.UnixNano(), 10)
	}
	return headers
}

// nextSecond returns t, rounded up to a whole second: asynq rounds down, and would be early.
func nextSecond(t time.Time) time.Time { return t.Add(time.Second - 1).Truncate(time.Second) }

// failed returns an error of asynq or of the client, or the cause of ctx if that has ended: asynq hides
// it, and a connection can reach the deadline of ctx before its timer does.
func failed(ctx context.Context, err error) error {
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		<-ctx.Done()
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("asynqjobs: %w", err)
}

// jobOf returns the job of a task.
func jobOf(id, queue, kind string, payload []byte, headers map[string]string, retried, maxRetry int) jobs.Job {
	job := jobs.Job{ID: id, Queue: queue, Kind: kind, Payload: payload, Campaign: headers[headerCampaign], Attempt: retried + 1}
	number := func(header string) int64 {
		n, _ := strconv.ParseInt(headers[header], 10, 64)
		return n
	}
	job.MaxAttempts, job.Retain = int(number(headerMax)), time.Duration(number(headerRetain))
	switch {
	case job.MaxAttempts != 0:
	case maxRetry == math.MaxInt32:
		job.MaxAttempts = defaultMaxAttempts
	default: // it was enqueued by another client
		job.MaxAttempts = maxRetry + 1
	}
	if at := number(headerAt); at != 0 {
		job.NotBefore = time.Unix(0, at)
	}
	return job
}
