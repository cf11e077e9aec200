package jobs

import (
	"context"
	"iter"
	"time"

	"github.com/gresil/gresil/internal/text"
	"github.com/gresil/gresil/internal/validate"
)

// An Engine keeps jobs, and hands each one out when it is due. It decides nothing: a [Runner] does,
// and an engine carries out the [Result]. All methods are safe for concurrent use. Package jobstest
// tests an engine.
type Engine interface {
	// Enqueue adds a job whose fields are valid and set. It replaces a job with its ID that has failed,
	// returns ErrExists if another one has it, and ErrFull if there is no room.
	Enqueue(ctx context.Context, job Job) error
	// Run hands the jobs of a queue to handle, at most concurrency at a time, the ones that are due
	// first come first, and none before its time. When ctx ends, it takes no other job, and returns
	// nil after the last call of handle. The context of handle does not end with ctx; it ends if
	// another process may get the job. A process that dies loses no job of a durable engine, which sets
	// Job.Losses, and runs a job with several of them while no other such job runs in its process.
	Run(ctx context.Context, queue string, concurrency int, handle func(ctx context.Context, job Job) Result) error
	Inspector
}

// An Inspector shows and changes the queues of an [Engine]. A queue that has never had a job is empty.
type Inspector interface {
	// Inspect returns the counts of a queue.
	Inspect(ctx context.Context, queue string) (QueueInfo, error)
	// List iterates over the jobs of a queue in a state. Jobs that change their state meanwhile may
	// be left out, or be listed twice. An error ends it.
	List(ctx context.Context, queue string, state State) iter.Seq2[Info, error]
	// RunNow makes a scheduled or failed job pending. A job that has used its attempts has one more.
	// The error is ErrNotFound if there is no such job, and ErrState if it is in another state.
	RunNow(ctx context.Context, queue, id string) error
	// Delete removes a job that is not active. The errors are those of RunNow.
	Delete(ctx context.Context, queue, id string) error
	// Pause stops the queue, in all processes, until Resume. Jobs that are active continue.
	Pause(ctx context.Context, queue string) error
	// Resume ends a pause and a hold. It does nothing if there is none. Jobs that begin
	// afterwards can cause a hold.
	Resume(ctx context.Context, queue string) error
	// Hold stops the queue like Pause, until a time. It neither shortens another hold nor changes a
	// pause.
	Hold(ctx context.Context, queue string, until time.Time) error
}

// QueueInfo has the counts of a queue, over all processes.
type QueueInfo struct {
	Queue     string
	Pending   int
	Scheduled int
	Active    int
	Failed    int
	Done      int

	Soon      int           // Pending, and Scheduled within the next 5 minutes
	Stuck     int           // Active, although no process has it
	Processed uint64        // attempts that succeeded or failed, since the queue was made
	Latency   time.Duration // since the oldest pending job is due
	Paused    bool          // by Pause
	HeldUntil time.Time     // by Hold; zero if it is not held
}

// Soon is the time that counts for QueueInfo.Soon.
const Soon = 5 * time.Minute

// A Result is the decision about a job after an attempt.
type Result struct {
	Verdict Verdict
	At      time.Time // Again, Retry: when the job is due; a past time is now
	Err     error     // Again, Retry, Fail: the reason
}

// Verdict is the kind of a [Result].
type Verdict uint8

const (
	// Succeeded means that the job is done.
	Succeeded Verdict = iota
	// Again means that the job runs at Result.At, and has used no attempt.
	Again
	// Retry means that the attempt has failed, and that the job runs at Result.At.
	Retry
	// Fail means that the job is kept as failed.
	Fail
)

// String returns "succeeded", "again", "retry" or "fail".
func (v Verdict) String() string { return text.Name(v, "succeeded", "again", "retry", "fail") }

// MarshalText returns the text of String. A value without a name is an error.
func (v Verdict) MarshalText() ([]byte, error) { return validate.MarshalText(v, Fail) }

// UnmarshalText reads the text of MarshalText. Any other text is an error.
func (v *Verdict) UnmarshalText(text []byte) error { return validate.UnmarshalText(v, Fail, text) }
