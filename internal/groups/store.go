package groups

import (
	"context"
	"errors"
	"time"
)

// A Store keeps the records of queues in groups. A record is in one place only, and each method is one atomic step; a Control
// of very many records may be several.
//
//	Add ──► pending ──Take──► batch, taken ──Replace──► done
//	           ▲                 ▲   ├──────Replace──► failed ──Retry──► pending
//	           └── replaced      └───┴──────Replace──► other batches, that wait for their time
//
// A group is due if a batch waits whose time has come, or if a record is due: its oldest pending record is as old as FlushAfter,
// it has FlushSize of them, or after Flush or Retry. Then all records that are pending are due. Due groups that are not paused
// take turns, one batch each; those that become due by time, in the order of these times.
//
// A batch that Take has given has to become a job. Where jobs can be lost, it is given again, as it was, until it is loaded, and later
// from time to time until it is replaced: so one whose job is lost comes back. The turn of a batch is the number of times that it has
// waited; what was said in an earlier turn changes nothing.
//
// All times are those of the store's clock. A Store is safe for concurrent use. An operation that failed may have happened, and
// can be repeated; an Add with the same ID.
type Store interface {
	// Add adds a record to its group. If another one with its Key is pending there, that takes its Payload instead, and id is
	// that of this one. due reports whether the group is due. The error is [ErrFull] if rules.MaxPending records are there.
	Add(ctx context.Context, queue string, r Record, rules Rules) (id string, due bool, err error)
	// Take takes a batch of the next due group, without its records: the one whose time came first, otherwise the oldest pending
	// records as a new one. Its ID is empty if no group is due, or terms.Ahead batches are taken and not loaded.
	Take(ctx context.Context, queue string, terms Terms) (Batch, State, error)
	// Load returns a batch with its records for a call. Its ID is empty if it was replaced in this turn, or is not there.
	Load(ctx context.Context, queue, batch string, turn int) (Batch, error)
	// Replace replaces a batch by parts and results; together they have each of its records once. Records with an Err have
	// failed. last is the last error of the group, unless it is nil. The error is [ErrReplaced] if this was done before.
	Replace(ctx context.Context, queue string, b Batch, parts []Part, results []Result, last error) error
	// Control does a verb for groups, or without any for all, and returns the number of records that it has changed.
	Control(ctx context.Context, queue string, v Verb, groups ...string) (n int, err error)
	// Groups returns up to n groups, those that are there for longest first.
	Groups(ctx context.Context, queue string, flushAfter time.Duration, n int) ([]Group, error)
	// Failed returns up to n of the failed records of a group, beginning at the one with the index from.
	Failed(ctx context.Context, queue, group string, from, n int) ([]Failure, error)
	// Results returns the results of records by ID. One that waits or is sent has Waits; one that is not known is not there.
	Results(ctx context.Context, queue string, ids []string) (map[string]Result, error)
}

// ResultLife is the time for which the result of a record that is done is known.
const ResultLife = 10 * time.Minute

var (
	// ErrFull is the error for a record beyond Rules.MaxPending.
	ErrFull = errors.New("groups: full")
	// ErrReplaced is the error for a batch that was replaced in this turn.
	ErrReplaced = errors.New("groups: the batch was replaced")
)

// A Record is a record of a group. Its ID is unique.
type Record struct {
	ID, Group, Key string
	Payload        []byte
}

// Rules apply to an Add.
type Rules struct {
	FlushSize  int // 0: none
	MaxPending int // records in the queue, failed ones included
}

// Terms apply to a Take.
type Terms struct {
	ID         string // of a new batch
	MaxRecords int
	MaxBytes   int // of payloads; 0: no limit. A single record can be larger
	FlushAfter time.Duration
	FlushSize  int // groups that have so many pending records become due; 0: those that an Add has made due are enough
	Ahead      int
	Again      time.Duration // after which a batch that is not loaded is given again
}

// State is the state of a queue.
type State struct {
	Next    time.Duration // until a group becomes due by time; negative: none will
	Records int
}

// A Batch is a set of records for one call.
type Batch struct {
	ID       string
	Turn     int
	Group    string
	Attempts int // that have failed
	Losses   int // of the batch that it was a part of
	Records  []Record
}

// A Part is a batch that replaces another one. It waits for its time.
type Part struct {
	ID               string // it may be that of the old one
	Records          []int  // indexes in the old one, ascending
	After            time.Duration
	Attempts, Losses int
}

// A Result is the end of a record.
type Result struct {
	ID    string
	Value []byte
	Err   error // it has failed; another process gets only the text
	Waits bool  // it has no result yet
}

// A Failure is a record that has failed.
type Failure struct {
	Record
	Err error
}

// A Verb is what Control does.
type Verb string

// The verbs.
const (
	Flush  Verb = "flush"  // what is pending, or waits, is due
	Pause  Verb = "pause"  // nothing is taken of the group
	Resume Verb = "resume" // ends a pause
	Retry  Verb = "retry"  // what has failed is pending, before the rest, and due; it holds no key
	Delete Verb = "delete" // records that are in no call yet are removed
)

// A Group is the state of a group. It exists while it has records or is paused.
type Group struct {
	Name                      string
	Pending, InFlight, Failed int // Pending includes records of batches that wait
	Paused                    bool
	Oldest                    time.Time // arrival of the record that is pending for longest; zero if none is
	Next                      time.Time // when it is due
	LastCall                  time.Time
	LastError                 string
}
