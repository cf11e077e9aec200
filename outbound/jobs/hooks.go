package jobs

import (
	"context"
	"time"

	"github.com/gresil/gresil/internal/hook"
)

// Hooks observe a [Runner]. Any of them may be nil. Each call of a hook has a goroutine of its own,
// which the attempt waits for with no lock held: a hook must not block. A panic in a hook is recovered
// and counted.
type Hooks struct {
	// Succeeded is called when an attempt has succeeded.
	Succeeded func(ctx context.Context, event Event)
	// Limited is called when a job runs again later, without having used an attempt.
	Limited func(ctx context.Context, event Event)
	// Retried is called when an attempt has failed, and the job runs again later.
	Retried func(ctx context.Context, event Event)
	// Failed is called when a job is kept as failed.
	Failed func(ctx context.Context, event Event)
	// Held is called when a queue is held because its limit is used up for longer than Queue.Hold.
	Held func(ctx context.Context, event Event)
	// EngineFailed is called when the engine could not be read or could not hold a queue.
	EngineFailed func(ctx context.Context, event Event)

	engineWorks func(ctx context.Context, event Event) // again, for ObserveSteps
}

// Event is the argument of the hooks of a [Runner].
type Event struct {
	Name  string        // of the runner
	Queue string        // name
	Job   Job           // of an attempt; its ID, Campaign and Payload may be secrets
	At    time.Time     // Limited, Retried: when it runs again; Held: the end
	Took  time.Duration // of an attempt
	Err   error         // of an attempt, or of the engine
}

// Join returns hooks that call those of h and then those of other.
func (h Hooks) Join(other Hooks) Hooks {
	return Hooks{
		Succeeded:    hook.Join(h.Succeeded, other.Succeeded),
		Limited:      hook.Join(h.Limited, other.Limited),
		Retried:      hook.Join(h.Retried, other.Retried),
		Failed:       hook.Join(h.Failed, other.Failed),
		Held:         hook.Join(h.Held, other.Held),
		EngineFailed: hook.Join(h.EngineFailed, other.EngineFailed),
		engineWorks:  hook.Join(h.engineWorks, other.engineWorks),
	}
}

// call calls a hook, which may be nil.
func (r *Runner) call(ctx context.Context, f func(context.Context, Event), event Event) {
	if f == nil {
		return
	}
	named := event // so that event does not escape when there is no hook
	named.Name = r.Name()
	r.life.Panics.Apart(func() { f(ctx, named) })
}

// engineFails reports an operation that the engine did not execute.
func (r *Runner) engineFails(ctx context.Context, event Event) {
	r.call(ctx, r.life.Hooks().EngineFailed, event)
	r.failing.Store(true) // after the hook: engineWorks follows it
}

// engineExecutes ends the outage that engineFails has reported, if there is one.
func (r *Runner) engineExecutes(ctx context.Context) {
	if r.failing.Load() && r.failing.Swap(false) {
		r.call(ctx, r.life.Hooks().engineWorks, Event{})
	}
}

func hooksOf(c *Config) Hooks { return c.Hooks }
