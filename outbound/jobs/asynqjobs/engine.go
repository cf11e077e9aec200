package asynqjobs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/semaphore"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/failover"
	"github.com/gresil/gresil/internal/groups"
	"github.com/gresil/gresil/internal/identity"
	"github.com/gresil/gresil/outbound/jobs"
)

const (
	headerJob  = "gresil"      // the job, as JSON
	headerLost = "gresil-lost" // set when a job was lost with its process, until the job is done
	taskType   = "job"
	forever    = 10 * 365 * 24 * time.Hour // the timeout of a task: asynq abandons a handler at its end
)

// An engine keeps jobs in Redis. It is safe for concurrent use.
type engine struct {
	redis     redis.UniversalClient
	conns     failover.Conns
	client    *asynq.Client
	inspector *asynq.Inspector
	config    Config
	stage     *semaphore.Weighted // held by the running jobs of this process; a job that runs alone holds all of it
	suspects  *semaphore.Weighted // held by the job that runs alone, or would
	mostAlone time.Duration

	mu    sync.Mutex
	rooms map[string]*room   // by queue
	lines []*line            // replaced, not changed, when one leaves
	stop  context.CancelFunc // ends watch

	second atomic.Int64 // of the last look of watch at all jobs, in s since 1970; 0: the next look includes all
}

var _ groups.Queue = (*engine)(nil)

// New makes an engine over a client, which the caller closes after the last use. It sends no command.
func New(client redis.UniversalClient, cfg Config) (*jobs.Engine, error) {
	if identity.Missing(client) {
		return nil, &core.ConfigError{Field: "asynqjobs.New", Value: nil, Reason: "needs a client"}
	}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.Poll = cmp.Or(cfg.Poll, defaultPoll)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	e := &engine{
		redis: client, client: asynq.NewClientFromRedisClient(client), inspector: asynq.NewInspectorFromRedisClient(client),
		config: cfg, stage: semaphore.NewWeighted(math.MaxInt64), suspects: semaphore.NewWeighted(1), mostAlone: mostAlone,
		rooms: map[string]*room{},
	}
	s := &store{engine: e, script: redis.NewScript(groupsText)}
	if _, clustered := client.(*redis.ClusterClient); !clustered {
		s.views = map[string]*view{}
	}
	return groups.NewEngine(e, s), nil
}

func (e *engine) Enqueue(ctx context.Context, job groups.Job, most int) error {
	switch r, err := e.room(ctx, job.Queue, most); {
	case err == nil:
		defer r.adding.Add(-1)
	case !errors.Is(err, groups.ErrNoRoom) || e.redis.Exists(ctx, prefix(job.Queue)+"t:"+job.ID).Val() == 0:
		return err
	} // a job that has failed is replaced, and takes no further place
	details, err := json.Marshal(job)
	if err != nil {
		return err
	}
	options := []asynq.Option{
		asynq.Queue(job.Queue), asynq.TaskID(job.ID), asynq.MaxRetry(math.MaxInt32), asynq.Timeout(forever),
	}
	if job.Retain > 0 {
		options = append(options, asynq.Retention(job.Retain+2*time.Second-1)) // it cuts this, and the time of the end, to whole seconds
	}
	if job.NotBefore.After(time.Now()) {
		options = append(options, asynq.ProcessAt(nextSecond(job.NotBefore)))
	}
	task := asynq.NewTaskWithHeaders(taskType, job.Payload, map[string]string{headerJob: string(details)})
	for {
		_, err := send(ctx, e, func() (*asynq.TaskInfo, error) { return e.client.EnqueueContext(ctx, task, options...) })
		if !errors.Is(err, asynq.ErrTaskIDConflict) {
			return err
		}
		if free, err := e.script(ctx, job.Queue, "control", "free", job.ID, time.Now().Unix()); err != nil || free == 0 {
			return cmp.Or(err, groups.ErrExists)
		}
	}
}

// A room is how many places of a queue are taken. The mutex of the engine guards its fields, except for adding.
type room struct {
	used   int          // when they were read, with the jobs that were being added
	added  int          // since then
	at     time.Time    // when they were read
	adding atomic.Int64 // jobs of this process that are being added
}

// room takes a place for a job, which is being added from then on. It reads how many are taken when it has used up an eighth of those that
// were free, or once a second, so that processes that share a queue exceed most only a little together.
func (e *engine) room(ctx context.Context, queue string, most int) (*room, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	r := e.rooms[queue]
	if r == nil {
		if len(e.rooms) > 1000 {
			clear(e.rooms)
		}
		r = &room{}
		e.rooms[queue] = r
	}
	for r.used >= most || r.added > (most-r.used)/8 || time.Since(r.at) > time.Second {
		before, adding := r.at, int(r.adding.Load())
		e.mu.Unlock()
		all, err := e.Inspect(ctx, queue)
		e.mu.Lock()
		if err != nil {
			return nil, err
		}
		if !r.at.Equal(before) {
			continue // another call has read it meanwhile
		}
		used := all[0].Pending + all[0].Scheduled + all[0].Active + all[0].Failed
		if used >= most {
			return nil, groups.ErrNoRoom
		}
		r.used, r.added, r.at = used+adding, 0, time.Now() // one that is counted twice makes it read again sooner
	}
	r.added++
	r.adding.Add(1)
	return r, nil
}

// send calls f, and returns its result. If the server has refused it because it is not the primary, it calls f again over another
// connection.
func send[T any](ctx context.Context, e *engine, f func() (T, error)) (result T, err error) {
	err = e.conns.Do(ctx, e.redis, func() (err error) {
		result, err = f()
		return refusal(err)
	})
	return result, failed(ctx, err)
}

// refusal strips the text that asynq puts before the reply of a server that is not the primary. asynq keeps only the
// text of that reply.
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

// jobOf returns the job of a task, which another client can have enqueued.
func jobOf(id, queue string, payload []byte, headers map[string]string, retried, maxRetry int) groups.Job {
	job := groups.Job{MaxAttempts: maxRetry + 1}
	_ = json.Unmarshal([]byte(headers[headerJob]), &job)
	job.ID, job.Queue, job.Payload, job.Attempt = id, queue, payload, retried+1
	return job
}

// nextSecond returns t, rounded up to a whole second: asynq rounds down, and would be early.
func nextSecond(t time.Time) time.Time { return t.Add(time.Second - 1).Truncate(time.Second) }

// failed returns the cause of ctx if err is not nil and ctx has ended, otherwise err with a prefix. asynq hides the
// cause, and a connection can reach the deadline of ctx before its timer does.
func failed(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		<-ctx.Done()
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("asynqjobs: %w", err)
}
