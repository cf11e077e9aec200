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
	"github.com/gresil/gresil/internal/groups"
	"github.com/gresil/gresil/internal/instance"
	"github.com/gresil/gresil/internal/validate"
	"github.com/gresil/gresil/outbound/gate"
)

const (
	defaultPending     = 1_000_000
	defaultGrace       = 10 * time.Second
	defaultConcurrency = 10
	defaultTimeout     = 30 * time.Minute
	defaultDeliveries  = 5
)

// An Engine keeps jobs, and the groups of outbound/batch. [Memory] and asynqjobs.New make one. Several runners and batchers can share it.
// It need not be closed.
type Engine = groups.Engine

// Config configures a [Runner]. The zero value enqueues jobs in memory and runs none.
//
// A Config is a plain value: copy it to derive another one from it.
type Config struct {
	// Name names the runner. If empty, it is "default".
	Name string
	// Registry registers the runner under the kind "jobs" and its name. If nil, it is not registered.
	Registry *core.Registry
	// Engine keeps the jobs. If nil, it is Memory(), and jobs are lost when the process ends. SetConfig cannot change it.
	Engine *Engine
	// Queues are the queues whose jobs this process runs, by name. A process that only enqueues needs none. SetConfig
	// cannot add or remove one.
	Queues map[string]Queue
	// MaxPending is the number of jobs that a queue can hold, failed ones included. Beyond it, Enqueue returns [ErrFull], and
	// Feed waits. If zero, it is 1,000,000.
	MaxPending int
	// Grace is the time that handlers have after the end of Run's context, until their own contexts end. If zero, it is 10
	// seconds. If negative, there is none.
	Grace time.Duration
}

// A Queue says how this process runs the jobs of one queue. Handler is required.
type Queue struct {
	// Handler makes the call of a job, once or more often. It must return when its context ends, and never call
	// runtime.Goexit or FailNow of a test.
	Handler func(ctx context.Context, job Job) error
	// Gate admits each attempt before its handler is called. The handler's first call through the Gate, such as a request over its Transport,
	// uses the permit of the attempt, and waits again only as described at GateCall. While the vendor is held, few jobs are taken. A handler
	// that returns without a call counts as a call that was made, unless its error matches core.ErrRejected. All calls under
	// the handler's context are background calls (gate.Background), to every gate. If nil, handlers are called at once.
	Gate *gate.Gate
	// GateCall returns the keys and costs of a job at its Gate. If nil, there are none. Return every key that is known.
	// In the handler, the call waits for a key that only the request has, such as its host, for a connection of a gate.Pool, and for a
	// hold that begins later: up to 2 seconds, which count toward Timeout. If it would have to wait
	// longer, its error is a *gate.LimitedError: return it, and the job goes back to the queue, without using an attempt.
	GateCall func(job Job) gate.Call
	// Concurrency is the number of handlers that run at once in this process. If zero, it is 10. SetConfig cannot change
	// it.
	Concurrency int
	// Timeout is the longest time of an attempt, without the wait for the Gate before it; then its context ends. If zero, it
	// is 30 minutes. If negative, there is no limit.
	Timeout time.Duration
	// Backoff is the wait after a failed attempt. If nil, it grows from 15 seconds so that 25 attempts take two and a half
	// weeks.
	Backoff backoff.Strategy
	// MaxDeliveries is how many processes in a row can die while they run the job, or while it is at its Gate; then it has failed. If zero,
	// it is 5. A process that cannot reach the engine for half a minute counts too, so a value below 3 can fail jobs that do no harm.
	MaxDeliveries int
}

// Validate reports every field that cannot be used, joined. Each is a *core.ConfigError.
func (c Config) Validate() error {
	check := validate.Of("jobs.Config")
	check.That(c.Engine == nil || groups.Open(c.Engine) != nil, "Engine", "an empty one", "must be made by Memory or asynqjobs.New")
	check.That(c.MaxPending >= 0, "MaxPending", c.MaxPending, "must be >= 0 (0 means 1000000)")
	for _, name := range slices.Sorted(maps.Keys(c.Queues)) {
		q, field, job := c.Queues[name], fmt.Sprintf("Queues[%q].", name), Job{Queue: name}
		check.That(job.validate() == nil, "Queues", name, validQueue)
		check.That(q.Handler != nil, field+"Handler", nil, "must be set")
		check.That(q.GateCall == nil || q.Gate != nil, field+"GateCall", "a function", "must be nil without a Gate")
		check.That(q.Concurrency >= 0 && q.Concurrency <= 65536, field+"Concurrency", q.Concurrency, "must be 0 to 65536 (0 means 10)")
		check.That(q.MaxDeliveries >= 0, field+"MaxDeliveries", q.MaxDeliveries, "must be >= 0 (0 means 5)")
		check.Strategy(field+"Backoff", q.Backoff)
	}
	return check.Err()
}

// settings are the Queues with their defaults.
func settings(c *Config) map[string]Queue {
	queues := make(map[string]Queue, len(c.Queues))
	for name, q := range c.Queues {
		q.Concurrency, q.MaxDeliveries = cmp.Or(q.Concurrency, defaultConcurrency), cmp.Or(q.MaxDeliveries, defaultDeliveries)
		if q.Timeout = cmp.Or(q.Timeout, defaultTimeout); q.Timeout < 0 {
			q.Timeout = forever
		}
		q.Backoff = cmp.Or[backoff.Strategy](q.Backoff, backoff.Exponential{Delay: 15 * time.Second, Max: 36 * time.Hour, Jitter: -1})
		if q.GateCall == nil {
			q.GateCall = func(Job) gate.Call { return gate.Call{} }
		}
		queues[name] = q
	}
	return queues
}

func lifeCycle() *instance.Kind[Config, map[string]Queue] {
	return &instance.Kind[Config, map[string]Queue]{
		Kind: "jobs", Type: "jobs.Config", DefaultName: "default", Settings: settings,
		Fields: func(c *Config) instance.Fields { return instance.Fields{Name: &c.Name, Registry: &c.Registry} },
		Fixed: func(check *validate.Check, old, cfg *Config) {
			cfg.Engine = cmp.Or(cfg.Engine, old.Engine)
			check.That(cfg.Engine == old.Engine, "Engine", "another one", "must stay as it is")
			before, after := settings(old), settings(cfg)
			same := maps.EqualFunc(before, after, func(Queue, Queue) bool { return true })
			check.That(same, "Queues", "other names", "must have the same names")
			for name, was := range before {
				is, ok := after[name]
				check.That(!ok || was.Concurrency == is.Concurrency, fmt.Sprintf("Queues[%q].Concurrency", name), is.Concurrency, "must stay as it is")
			}
		},
	}
}
