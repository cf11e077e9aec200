package jobs

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gresil/gresil/internal/validate"
)

const (
	defaultMaxAttempts = 25
	maxName            = 200 // bytes of an ID, Queue or Campaign
	validName          = "must be at most 200 bytes of UTF-8 without control characters"
	validQueue         = validName + " and braces, not blank, and not begin with batch:"
	maxPayload         = 1 << 20 // bytes
	maxMeta            = 4 << 10 // bytes
	maxRetain          = 90 * 24 * time.Hour
)

// A Job is a call that is made later, by the handler of its queue.
type Job struct {
	// ID identifies the job in its queue: at most 200 bytes. It is the same in each attempt. If empty, Enqueue makes a
	// random one. A second job with the same ID is refused with [ErrExists] until the first is done and its Retain is
	// over. If the first has failed, it is replaced.
	ID string
	// Queue is the name of the queue, at most 200 bytes without braces. It must not begin with "batch:", as the queues of outbound/batch do.
	// No process need run the queue yet: its jobs wait until one does, so a wrong name is no error. It is required.
	Queue string
	// Campaign is the name of a group of jobs, which Runner.Cancel deletes together. It can be empty.
	Campaign string
	// Payload is passed to the handler, which must not change it: at most 1 MiB.
	Payload []byte
	// Meta is passed to the handler too, such as a kind, a tenant or a trace: at most 4 KiB of text.
	Meta map[string]string
	// NotBefore is the earliest time of the first attempt, in the years 0 to 9999. If zero, there is none.
	NotBefore time.Time
	// MaxAttempts is the number of attempts that can fail; after the last one the job has failed. If zero, it is 25. If
	// negative, there is no limit.
	MaxAttempts int
	// Retain is the time for which the ID stays in use after the job is done, at most 90 days. Until then the engine keeps the whole job,
	// which does not count in Config.MaxPending.
	Retain time.Duration

	// Attempt is set for the handler: 1, plus the number of failed attempts. Enqueue ignores it.
	Attempt int
}

// validate reports every field that cannot be used, joined.
func (j *Job) validate() error {
	check := validate.Of("jobs.Job")
	check.That(j.ID == "" || isName(j.ID), "ID", j.ID, validName+", and not blank")
	named := isName(j.Queue) && !strings.ContainsAny(j.Queue, "{}") && !strings.HasPrefix(j.Queue, "batch:")
	check.That(named, "Queue", j.Queue, validQueue)
	check.That(j.Campaign == "" || isName(j.Campaign), "Campaign", j.Campaign, validName+", and not blank")
	check.That(len(j.Payload) <= maxPayload, "Payload", fmt.Sprintf("%d bytes", len(j.Payload)), "must be at most 1 MiB")
	size, text := 0, true
	for k, v := range j.Meta {
		size += len(k) + len(v)
		text = text && utf8.ValidString(k) && utf8.ValidString(v)
	}
	check.That(text && size <= maxMeta, "Meta", fmt.Sprintf("%d bytes", size), "must be at most 4 KiB of UTF-8")
	year := j.NotBefore.Year()
	check.That(year >= 0 && year <= 9999, "NotBefore", j.NotBefore, "must be in the years 0 to 9999")
	check.That(j.Retain >= 0 && j.Retain <= maxRetain, "Retain", j.Retain, "must be 0 to 90 days")
	return check.Err()
}

func isName(s string) bool {
	return len(s) <= maxName && strings.TrimSpace(s) != "" && utf8.ValidString(s) && strings.IndexFunc(s, unicode.IsControl) < 0
}

// Info is a job and its state.
type Info struct {
	Job

	State     State
	Due       time.Time // of a Scheduled job: when it runs
	LastError string    // of the last attempt that failed or was limited; it can contain secrets
}

// A State is the state of a job in its queue.
type State string

// The states.
const (
	Pending   State = "pending"   // due, and waiting for its turn or for the vendor
	Scheduled State = "scheduled" // waiting for its time
	Active    State = "active"    // its handler runs
	Failed    State = "failed"    // kept until RunNow or Delete
	Done      State = "done"      // succeeded, with its ID still in use because of Retain
)

// QueueInfo has the counts of a queue, for all processes together.
type QueueInfo struct {
	Pending, Scheduled, Active, Failed, Done int

	Oldest time.Time // when the oldest pending job was due; zero if there is none
	Paused bool
}
