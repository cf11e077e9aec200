package batch

import (
	"context"
	"time"
)

// A Store keeps the records of batchers. Batchers with one Store and Method, in any number of
// processes, share their groups. Only authors of stores need this interface; package batchtest has
// its conformance tests.
//
// # State
//
// Each method has groups, one for each option; any string is a method, an option, a key or an ID. A
// group has pending records in the order of their arrival, and batches: sets of records that were
// leased for a call. A record is in one place only, and every operation is atomic:
//
//	Add ──► pending ──Lease──► batch, leased ──Settle──► done
//	           ▲                  ▲    │  ├───Settle──► failed ──Retry──► pending
//	           │                  │    │  └───Settle──► other batches, that wait for their time
//	           └── replaced       └────┘ the lease expires, or its time has come
//
// A group exists while it has records or is paused. A batch that waits, and one whose lease has
// expired, need no operation to come back: Lease hands them out with the same ID and records.
//
// # Due groups
//
// A group is due if a record is due, or if a batch waits whose time has come. Records are due up to
// the mark of the group, which is set to its newest record by
//
//   - Add, if the group then has [Rules.FlushSize] pending records,
//   - Flush and Retry,
//   - Ready and Lease, if its oldest pending record is as old as their flushAfter.
//
// Due groups that are not paused wait in one queue of the method. A group enters the queue at its
// end when it becomes due; several that become due by time enter in the order of these times.
//
// # Time
//
// All times are those of the store's clock. Arguments are durations from its present time. A resolution
// of a millisecond is enough; nothing is ever early.
//
// # Errors
//
// An operation that returns an error other than those named here may have happened or not. The
// batcher does not repeat Add, and a store must not let its client repeat it unless it recognizes the
// second one by its ID. All other operations can be repeated. A store must be safe for concurrent
// use. It may merge concurrent operations of one kind.
//
// # Replies
//
// A Call waits for the result of its record, in any process. Its address is in the ReplyTo of the
// record; a record that stands for several Calls has several. Settle and Delete send a [Reply] to
// each address that the record has then, and Receive returns those of one process. There is no
// shorter way for Calls of the process that sends.
type Store interface {
	// Add appends a record to the pending records of rec.Option. Its ID is unique, and the store must
	// not keep rec itself unless it owns rec.Payload from then on: the caller does not use it again.
	//
	// If rec.Key is not empty and another record of the group holds it (see [Record.Key]), nothing is
	// appended, and the result has the ID of that record: its ReplyTo gets that of rec in addition,
	// and if it is pending, it takes the Payload and Size of rec, and keeps its place, ID and age.
	//
	// The error is [ErrFull] if the method has rules.MaxPending records that are pending or in
	// batches, and [ErrGroups] if it has rules.MaxGroups groups and this would be another one.
	Add(ctx context.Context, method string, rec *Record, rules Rules) (Added, error)

	// Ready reports whether any group is due.
	Ready(ctx context.Context, method string, flushAfter time.Duration) (State, error)

	// Lease takes one batch from the first group of the queue. If that group has a batch whose
	// time has come, or whose lease has expired, this is the batch, the earliest first, and
	// only its Delivery and Losses change. Otherwise, the batch gets the ID terms.ID and the oldest pending records:
	// terms.MaxRecords at most, and with terms.MaxBytes > 0 no more than have that Size in sum, but at
	// least one. Records that are not due are taken along up to these limits. Then the
	// group goes to the end of the queue if it is still due.
	//
	// Without a due group, the batch has no records. A batcher whose Lease has failed repeats it with
	// the same terms.ID. If there is a batch with this ID, the result is that batch if it is in its
	// first lease, which has not expired, and otherwise none.
	Lease(ctx context.Context, method string, terms Terms) (Batch, State, error)

	// Extend lets a lease end after the given time from now. With waiting, its call has not begun: if
	// it expires before another Extend without waiting, Losses does not count it. The errors are those
	// of Settle.
	Extend(ctx context.Context, method, id string, delivery int, lease time.Duration, waiting bool) error

	// Settle ends a lease, and replaces the batch by its outcome. The error is [ErrLeaseLost], and
	// nothing changes, if the batch no longer exists, has been leased again, or has been settled
	// and is not leased. If it has been leased again, its Losses are one less, but not negative: the
	// process has not ended. A lease that has expired can be settled until the batch is leased again.
	Settle(ctx context.Context, method string, s Settlement) error

	// Flush marks all records of the options as due, or with none, those of all groups. Options
	// that do not exist are ignored. A group that is paused is marked too.
	Flush(ctx context.Context, method string, options ...string) error

	// Pause keeps the batches and records of a group from being leased, or ends that. It makes the
	// group if it does not exist: the error can be [ErrGroups]. Leases of the group continue.
	Pause(ctx context.Context, method, option string, paused bool, maxGroups int) error

	// Delete removes the pending and failed records of a group, its batches that are not leased, its
	// pause and its keys, and returns the number of records. Each deleted record with a ReplyTo that
	// has not failed gets a [Reply] with Deleted.
	Delete(ctx context.Context, method, option string) (int, error)

	// Retry moves the failed records of a group to the end of the pending ones, with Attempts 0 and
	// no Key, and marks them as due. It returns their number. MaxPending does not apply.
	Retry(ctx context.Context, method, option string) (int, error)

	// Groups returns the state of the groups, at most limit of them, in any order.
	Groups(ctx context.Context, method string, limit int) (Listing, error)

	// Receive returns the replies to a process, and removes them. If there is none, it waits for one
	// for the given time, or until ctx is done; then it returns none, and no error for the time. Replies may be lost
	// if they are not received for ten minutes. Only one Receive of a process runs at a time.
	Receive(ctx context.Context, method, process string, wait time.Duration) ([]Reply, error)
}

// A Record is one record in a [Store].
type Record struct {
	ID     string
	Option string

	// Key makes the record unique in its group, if it is not empty. The record holds its key while it
	// is pending; with UntilDone also while it is in a batch. A record that has failed holds none.
	Key       string
	UntilDone bool

	Payload  []byte
	Size     int       // in bytes, for MaxBytes and GroupInfo.Bytes
	ReplyTo  []Address // of the Calls that wait for the result
	Attempts int       // that failed
	Added    time.Time // set by the store

	value    any // replaces Payload in memory
	sequence uint64
	pending  bool
}

// An Address is that of a Call that waits for its result.
type Address struct {
	Process string
	Call    string // unique
}

// Rules apply to one [Store.Add].
type Rules struct {
	FlushSize  int // 0: none
	MaxPending int
	MaxGroups  int
}

// Added is the result of [Store.Add].
type Added struct {
	ID       string // of the record, or of the one that holds the key
	Replaced bool   // a record holds the key: nothing was appended
	Due      bool   // the group is due
}

// Terms apply to one [Store.Lease].
type Terms struct {
	ID         string // of a new batch
	MaxRecords int    // at least 1
	MaxBytes   int    // 0: no limit
	FlushAfter time.Duration
	Lease      time.Duration
}

// State is the state of a method.
type State struct {
	Due     bool          // a group is due that is not paused
	Next    time.Duration // until the next group, batch or lease becomes due by time; negative: none will
	Records int           // that are pending or in batches
}

// A Batch is a set of records that is leased for one call.
type Batch struct {
	ID       string // stays the same whenever the same records are leased again
	Delivery int    // number of leases of this ID so far, from 1
	Expired  bool   // the lease before this one has expired: the records may have been sent
	Losses   int    // leases that have expired since the batch was made, except for those that waited
	Option   string
	Records  []Record // in their order of arrival
}

// A Settlement is the outcome of a leased batch. A record of the batch that is neither in Failed nor
// in Parts is done: it is removed.
type Settlement struct {
	ID       string // of the batch
	Delivery int    // of the lease
	Failed   []int  // indexes of records that are moved to the failed ones of the group
	Parts    []Part // batches that replace this one
	// Results are those of records that are done or failed. Each is sent to all addresses that the
	// record has now. A record that may have any has a result here.
	Results []Outcome
	// MaxFailed is the number of failed records that a group keeps: the oldest beyond are removed,
	// and counted in GroupInfo.Dropped.
	MaxFailed int
	// Error is the new GroupInfo.LastError, if it is not empty.
	Error string
}

// A Part is a batch that replaces a settled one.
type Part struct {
	// ID is the ID of the new batch. It may be that of the settled batch; then Delivery goes on
	// counting, otherwise it begins anew.
	ID      string
	Records []int // indexes in the settled batch, ascending
	// After is the time from now until the batch is due. With 0 it is due at once.
	After time.Duration
	// Attempt reports whether Attempts of each of its records is increased.
	Attempt bool
	// Losses are those of the new batch.
	Losses int
}

// An Outcome is the result of one record of a settled batch.
type Outcome struct {
	Record  int    // index in the batch
	Payload []byte // the encoded result, if Error is empty
	Error   string // the error of the record

	result any // replaces Payload and Error in memory
}

// A Reply is the result of a record for one Call.
type Reply struct {
	Call    string // of the address
	Payload []byte // of the outcome
	Error   string // of the outcome
	Deleted bool   // the record was deleted, and has no outcome

	result any
}

// A Listing is the result of [Store.Groups].
type Listing struct {
	Groups []GroupInfo
	// Calls is the number of leases of the method in about the last minute, over all processes.
	Calls int
}
