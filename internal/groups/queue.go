package groups

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/gresil/gresil/core"
)

var (
	// ErrExists is the error of Enqueue if the ID is in use.
	ErrExists = errors.New("jobs: a job with this ID exists")
	// ErrNotFound is the error of an operation on a job that is not there, or whose state does not permit it.
	ErrNotFound = errors.New("jobs: no such job")
	// ErrNoRoom is the error of Enqueue if the queue is full.
	ErrNoRoom = fmt.Errorf("jobs: the queue is full: %w", core.ErrRejected)
)

// A Queue keeps jobs, and hands each one out when it is due. It decides nothing: what becomes of a job is the [Verdict] about it. A queue
// that has never had a job is empty. All methods are safe for concurrent
// use.
type Queue interface {
	// Enqueue adds a job whose fields are valid and set. It replaces a job with its ID that has failed, returns ErrExists if
	// another one has it, and ErrNoRoom if most jobs are there.
	Enqueue(ctx context.Context, j Job, most int) error
	// Run hands the jobs of a queue out, those that are due first come first, and none before its time. When ctx ends, it takes no
	// other job, and returns after the last call of Handle. A store that fails does not end it.
	Run(ctx context.Context, queue string, w Worker)
	// Inspect returns the counts of queues, in their order.
	Inspect(ctx context.Context, queues ...string) ([]Counts, error)
	// List iterates over the jobs of a queue in a state. An error ends it.
	List(ctx context.Context, queue, state string) iter.Seq2[Entry, error]
	// Control does a verb. Pause stops the queue in all processes, and Resume ends that. Retry makes a scheduled or failed job pending,
	// with all its attempts, and Delete removes a job that is not active; the error is ErrNotFound if there is no such job.
	Control(ctx context.Context, queue string, v Verb, id string) error
	// Hold stops a queue in all processes until a time, at most LongestHold from now. It neither shortens another hold nor changes a pause.
	Hold(ctx context.Context, queue string, until time.Time) error
}

// A Worker runs jobs.
type Worker struct {
	Concurrency int
	// Handle makes an attempt. Its context ends if another process may get the job.
	Handle func(ctx context.Context, e Entry) Verdict
}

// Suspect is a key in the Meta of a job that runs alone in its process, as one does whose last process ended during the attempt.
const Suspect = "gresil-suspect"

// A Job is a jobs.Job. Its JSON is what a task of asynq has no field for.
type Job struct {
	ID          string            `json:"-"`
	Queue       string            `json:"-"`
	Campaign    string            `json:"campaign,omitempty"`
	Payload     []byte            `json:"-"`
	Meta        map[string]string `json:"meta,omitempty"`
	NotBefore   time.Time         `json:"not_before,omitzero"`
	MaxAttempts int               `json:"max_attempts,omitempty"`
	Retain      time.Duration     `json:"retain,omitempty"`
	Attempt     int               `json:"-"`
}

// An Entry is a job in its queue.
type Entry struct {
	Job

	State     string    // a jobs.State
	Due       time.Time // of a scheduled job
	LastError string
	Losses    int // processes that ended during this attempt
}

// A Verdict is what becomes of a job after an attempt.
type Verdict struct {
	End End
	At  time.Time // Limited, Retried: when the job is due; zero: it goes back to its place, and does not wait in its process
	Err error     // of the attempt; nil if it succeeded
	// Made reports whether the handler was called, and the process survived it: then the Losses before are forgotten.
	Made bool
}

// An End is how an attempt ended.
type End int

// The ends.
const (
	Succeeded End = iota
	Limited       // the job runs again, and has used no attempt
	Retried       // the attempt failed, and the job runs again
	Failed        // the job has failed, and is kept
)

// Counts are those of the jobs of a queue, over all processes.
type Counts struct {
	Pending, Scheduled, Active, Failed, Done int

	Soon   int       // scheduled within a minute
	Oldest time.Time // when the oldest pending job was due; zero if there is none
	Paused bool
}
