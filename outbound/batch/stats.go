package batch

import (
	"cmp"
	"context"
	"slices"

	"github.com/gresil/gresil/outbound/pace"
)

// Stats are the counters of a [Batcher] and its present state. Those of other processes are not
// included, except for Records.
type Stats struct {
	Added       uint64 // records, with those that were replaced
	Replaced    uint64 // records that another one with their key stands for
	Rejected    uint64 // records that were not added: ErrFull, ErrGroups, ErrClosed, too large, not encoded
	Direct      uint64 // records that were exempt
	Calls       uint64 // of Send
	CallsFailed uint64 // of these, with an error of the whole call
	Splits      uint64 // calls that were halved, after a permanent error or the ends of their processes
	Abandoned   uint64 // calls whose Send did not return
	Sent        uint64 // records that are done
	Retried     uint64 // records that are sent again after an error
	Failed      uint64 // records that are not sent again
	Redelivered uint64 // batches whose lease had expired
	LeasesLost  uint64 // batches that another process has taken, or that were no longer in the store
	Unused      uint64 // permits with which there was nothing to send
	StoreErrors uint64
	HookPanics  uint64

	InFlight int // calls, without those of exempt records
	Waiting  int // Calls that wait for their result
	Records  int // in the store, except for failed ones, as of the last operation of Run
}

// Stats returns the counts so far. They are read one after the other, but Replaced is a part of Added,
// and CallsFailed of Calls.
func (b *Batcher[T, R]) Stats() Stats {
	replaced, failed := b.replaced.Load(), b.callsFailed.Load()
	s := Stats{
		Added: b.grouped.Load() + replaced, Replaced: replaced, Rejected: b.rejected.Load(), Direct: b.direct.Load(),
		Calls: b.answered.Load() + failed, CallsFailed: failed, Splits: b.splits.Load(), Abandoned: b.abandoned.Load(),
		Sent: b.sent.Load(), Retried: b.retried.Load(), Failed: b.failed.Load(), Redelivered: b.redelivered.Load(),
		LeasesLost: b.lost.Load(), Unused: b.unused.Load(), StoreErrors: b.errors.Load(), HookPanics: b.life.Panics.Count(),
		InFlight: int(b.flying.Load()), Records: int(b.known.Load()),
	}
	b.mu.Lock()
	s.Waiting = len(b.waiters)
	b.mu.Unlock()
	return s
}

// A Snapshot is the state of a [Batcher], for a page. It can be encoded as JSON.
type Snapshot struct {
	Name   string
	Method string
	Stats  Stats
	Calls  int         // taken from the store in the last minute, over all processes
	Rates  []pace.Rate // the limit of calls, or nil
	Groups []GroupInfo // of all processes, by option; at most 10,000
}

// Snapshot returns the state. The error is [ErrStore], or the cause of ctx; then the rest is valid.
func (b *Batcher[T, R]) Snapshot(ctx context.Context) (Snapshot, error) {
	listing, err := b.listing(ctx)
	slices.SortFunc(listing.Groups, func(a, b GroupInfo) int { return cmp.Compare(a.Option, b.Option) })
	s := Snapshot{Name: b.Name(), Method: b.method, Stats: b.Stats(), Calls: listing.Calls, Groups: listing.Groups}
	if p := b.setting().Pacer; p != nil {
		s.Rates = slices.Clone(p.Config().Rates)
	}
	return s, err
}
