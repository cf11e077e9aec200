package jobs

import (
	"context"
	"time"

	"github.com/gresil/gresil/internal/hook"
)

// Hooks observe a [Runner]. Any of them may be nil. They are called by the goroutine of the attempt,
// with no lock held, and must not block. A panic in a hook is recovered and counted.
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
	}
}

// call calls a hook, which may be nil.
func (r *Runner) call(ctx context.Context, f func(context.Context, Event), event Event) {
	if f == nil {
		return
	}
	defer r.life.Panics.Recover()
	event.Name = r.Name()
	f(ctx, event)
}
