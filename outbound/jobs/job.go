package jobs

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gresil/gresil/internal/text"
	"github.com/gresil/gresil/internal/validate"
)

// Defaults and limits of a [Job].
const (
	defaultKind        = "job"
	defaultMaxAttempts = 5
	maxName            = 200     // bytes of an ID, Queue, Kind or Campaign
	maxPayload         = 1 << 20 // bytes
	maxRetain          = 90 * 24 * time.Hour
)

// A Job is a call that is made later, by the handler of its queue.
type Job struct {
	// ID identifies the job in its queue: at most 200 bytes. While a job with the ID waits, runs or is
	// retained, another one is refused with [ErrExists]; one that has failed is replaced. It is the same in each attempt: send it to the
	// vendor as the idempotency key. If empty, Enqueue draws one.
	ID string
	// Queue is the name of the queue. Use one queue for each limit of a vendor: a queue that has to
	// wait delays no other. It is required, and has at most 200 bytes, no control characters and
	// no braces.
	Queue string
	// Kind is for the handler, and for pages: at most 200 bytes. If empty, it is "job".
	Kind string
	// Campaign names the jobs that Runner.Cancel deletes: at most 200 bytes. It can be empty.
	Campaign string
	// Payload is for the handler, which must not change it: at most 1 MiB.
	Payload []byte
	// NotBefore is the earliest time of the first attempt. If zero, there is none.
	NotBefore time.Time
	// MaxAttempts is the number of attempts that may fail; after the last one the job is kept as
	// failed. An attempt that was limited does not count. As many processes, but at least 3, can end
	// during one attempt. If zero, it is 5. If negative, there is no limit of both.
	MaxAttempts int
	// Retain is the time that the ID stays in use after the job is done. If zero, it is free at
	// once. It is at most 90 days, and must not be negative.
	Retain time.Duration

	// Attempt is set for the handler: 1, and one more for each attempt that has failed. Enqueue
	// ignores it.
	Attempt int
	// Losses is set for the handler: how many processes have ended, or lost the engine, during this
	// attempt. Enqueue ignores it.
	Losses int
}

// validate reports every field that cannot be used, joined.
func (j *Job) validate() error {
	check := validate.Of("jobs.Job")
	const name = "must be at most 200 bytes of UTF-8 without control characters"
	check.That(j.ID == "" || isName(j.ID), "ID", j.ID, name+", and not blank")
	check.That(isName(j.Queue) && !strings.ContainsAny(j.Queue, "{}"), "Queue", j.Queue, name+" and braces, and not blank")
	check.That(j.Kind == "" || isName(j.Kind), "Kind", j.Kind, name+", and not blank")
	check.That(j.Campaign == "" || isName(j.Campaign), "Campaign", j.Campaign, name+", and not blank")
	check.That(len(j.Payload) <= maxPayload, "Payload", fmt.Sprintf("%d bytes", len(j.Payload)), fmt.Sprintf("must be at most %d bytes", maxPayload))
	check.That(j.Retain >= 0 && j.Retain <= maxRetain, "Retain", j.Retain, fmt.Sprintf("must be 0 to %v", maxRetain))
	return check.Err()
}

func isName(s string) bool {
	return len(s) <= maxName && strings.TrimSpace(s) != "" && utf8.ValidString(s) && strings.IndexFunc(s, unicode.IsControl) < 0
}

// State is the state of a job in its queue.
type State uint8

const (
	// Pending means that the job is due, and waits for its turn.
	Pending State = iota
	// Scheduled means that the job waits for its time.
	Scheduled
	// Active means that its handler runs.
	Active
	// Failed means that the job has used its attempts, or that its error was permanent. It is kept,
	// runs again by RunNow, and is replaced by another job with its ID. An engine keeps the latest 10,000 of a queue.
	Failed
	// Done means that the job has succeeded, and that its Retain is not over.
	Done
)

// String returns "pending", "scheduled", "active", "failed" or "done".
func (s State) String() string {
	return text.Name(s, "pending", "scheduled", "active", "failed", "done")
}

// MarshalText returns the text of String. A value without a name is an error.
func (s State) MarshalText() ([]byte, error) { return validate.MarshalText(s, Done) }

// UnmarshalText reads the text of MarshalText. Any other text is an error.
func (s *State) UnmarshalText(text []byte) error { return validate.UnmarshalText(s, Done, text) }

// Info is a job and its state.
type Info struct {
	Job
	State     State
	At        time.Time // Scheduled: when it is due
	LastError string    // of the last attempt that failed or was limited
	FailedAt  time.Time // the time of LastError
}
