package jobs

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/internal/identity"
	"github.com/gresil/gresil/internal/validate"
)

// Defaults and limits of a [Config].
const (
	defaultName        = "default"
	defaultGrace       = 10 * time.Second
	defaultLookAhead   = time.Minute
	defaultConcurrency = 10
	defaultTimeout     = 30 * time.Minute
	defaultHold        = 2 * time.Second
	maxHold            = time.Hour
	maxConcurrency     = 1 << 16
)

// A Handler makes the call of a job. It must return when its context ends. It can be called more than
// once for a job, also if it has returned nil: see the package documentation.
type Handler func(ctx context.Context, job Job) error

// Config configures a [Runner]. All fields have useful zero values.
//
// A Config is a plain value: copy it to derive another one from it.
type Config struct {
	// Name names the runner. If empty, it is "default".
	Name string
	// Registry registers the runner under the kind "jobs" and its name. If nil, it is not
	// registered.
	Registry *core.Registry

	// Engine keeps the jobs. If nil, they are in memory, as with NewMemory(0), and are lost when
	// the process ends. SetConfig cannot change it. The runner does not close it.
	Engine Engine
	// Queues are the queues whose jobs this process runs, by name: see [Job.Queue]. If empty, it
	// runs none: a process that only enqueues needs no Queues. SetConfig cannot add or remove one.
	Queues map[string]Queue
	// LookAhead is the time that Feed works ahead, at most 5 minutes. If zero, it is 1 minute. It must
	// not be negative.
	LookAhead time.Duration
	// Grace is the time that handlers have after the end of Run's context, until their own
	// contexts end. If zero, it is 10 seconds. If negative, there is none.
	Grace time.Duration

	// Hooks observe the runner. Any of them may be nil.
	Hooks Hooks
}

// A Queue configures how a process runs the jobs of one queue. Handler is required.
type Queue struct {
	// Handler makes the calls.
	Handler Handler
	// Concurrency is the number of handlers that can run at a time in this process: 1 to 65,536.
	// Handlers that wait for a slot of a limit count too: use at least the calls per second times
	// the seconds that a call takes. If zero, it is 10. SetConfig cannot change it.
	Concurrency int
	// Timeout is the longest time of an attempt; its context ends then. If zero, it is 30 minutes.
	// If negative, there is no limit.
	Timeout time.Duration
	// Backoff is the wait after an attempt that has failed. If nil, it is 5 seconds, doubled up to
	// 15 minutes, with a jitter of 20 %.
	Backoff backoff.Strategy
	// Spread is the wait of a job that was limited, as RandomSpread. If its slot is later, the random
	// part of the wait comes on top of that. If nil, the job runs at its slot.
	Spread backoff.Strategy
	// Hold is the longest time until the slot of a limited job for which the queue goes on. If the
	// slot is later, the whole queue is held until then, in all processes, but for an hour at
	// most: then the next job finds out. If zero, it is 2 seconds. If negative, the queue is never
	// held: for a queue with the jobs of several limits.
	Hold time.Duration
}

// Validate reports every field that cannot be used, joined. Each is a [*core.ConfigError].
func (c Config) Validate() error {
	check := validate.Of("jobs.Config")
	check.That(c.Engine == nil || !identity.Missing(c.Engine), "Engine", "a nil pointer", "must be an engine, or nil for jobs in memory")
	check.That(c.LookAhead >= 0 && c.LookAhead <= Soon, "LookAhead", c.LookAhead, fmt.Sprintf("must be 0 to %v (0 means %v)", Soon, defaultLookAhead))
	for _, name := range slices.Sorted(maps.Keys(c.Queues)) {
		q, field, job := c.Queues[name], fmt.Sprintf("Queues[%q].", name), Job{Queue: name}
		check.That(job.validate() == nil, "Queues", name, "must be at most 200 bytes of UTF-8 without control characters and braces, and not blank")
		check.That(q.Handler != nil, field+"Handler", nil, "must be set")
		check.That(q.Concurrency >= 0 && q.Concurrency <= maxConcurrency, field+"Concurrency", q.Concurrency, fmt.Sprintf("must be 0 to %d (0 means %d)", maxConcurrency, defaultConcurrency))
		check.Part(validate.Relabel(validate.Own(q.Backoff), "jobs.Config."+field+"Backoff.", "backoff."))
		check.Part(validate.Relabel(validate.Own(q.Spread), "jobs.Config."+field+"Spread.", "backoff."))
	}
	return check.Err()
}

func defaultBackoff() backoff.Strategy {
	return backoff.Exponential{Delay: 5 * time.Second, Max: 15 * time.Minute, Jitter: 0.2}
}

// settings are the Queues with their defaults.
func settings(c *Config) map[string]Queue {
	queues := make(map[string]Queue, len(c.Queues))
	for name, q := range c.Queues {
		q.Concurrency = cmp.Or(q.Concurrency, defaultConcurrency)
		q.Timeout = cmp.Or(q.Timeout, defaultTimeout)
		q.Hold = cmp.Or(q.Hold, defaultHold)
		if q.Backoff == nil {
			q.Backoff = defaultBackoff()
		}
		queues[name] = q
	}
	return queues
}
