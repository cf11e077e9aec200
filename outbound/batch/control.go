package batch

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"time"

	"github.com/gresil/gresil/internal/groups"
	"github.com/gresil/gresil/internal/registry"
)

// Flush makes the groups of the options due; without options, all groups. Records that wait for another attempt are
// sent too. It does not wait until they are sent.
func (b *Batcher[T, R]) Flush(ctx context.Context, options ...string) error {
	_, err := b.change(ctx, groups.Flush, options...)
	return err
}

// Pause keeps the records of an option from being sent, in all processes, until Resume. Calls in flight continue, and
// records can be added.
func (b *Batcher[T, R]) Pause(ctx context.Context, option string) error {
	_, err := b.change(ctx, groups.Pause, option)
	return err
}

// Resume ends the pause of an option.
func (b *Batcher[T, R]) Resume(ctx context.Context, option string) error {
	_, err := b.change(ctx, groups.Resume, option)
	return err
}

// Retry makes the failed records of an option due, with all their attempts, and returns their number. They come before the pending
// ones, in the order in which they failed.
func (b *Batcher[T, R]) Retry(ctx context.Context, option string) (n int, err error) {
	return b.change(ctx, groups.Retry, option)
}

// Delete removes the records of an option that are not in a call, failed ones included, and returns their number.
func (b *Batcher[T, R]) Delete(ctx context.Context, option string) (n int, err error) {
	return b.change(ctx, groups.Delete, option)
}

func (b *Batcher[T, R]) change(ctx context.Context, v groups.Verb, options ...string) (n int, err error) {
	n, err = b.store.Control(ctx, b.line, v, options...)
	b.up.EngineIs(ctx, err)
	b.poke()
	return n, err
}

// A Failure is a record that has failed.
type Failure[T any] struct {
	ID     string
	Record T
	Err    error // its last error; with an Engine, its text
}

const failuresRead = 500 // at once

// Failed iterates over the failed records of an option. An error ends the iteration.
func (b *Batcher[T, R]) Failed(ctx context.Context, option string) iter.Seq2[Failure[T], error] {
	return func(yield func(Failure[T], error) bool) {
		for from := 0; ; from += failuresRead {
			all, err := b.store.Failed(ctx, b.line, option, from, failuresRead)
			b.up.EngineIs(ctx, err)
			for _, f := range all {
				failure := Failure[T]{ID: f.ID, Err: f.Err}
				if err := json.Unmarshal(f.Payload, &failure.Record); err != nil {
					failure.Err = fmt.Errorf("%w, after: %w", err, f.Err)
				}
				if !yield(failure, nil) {
					return
				}
			}
			if err != nil {
				yield(Failure[T]{}, err)
			}
			if len(all) < failuresRead {
				return
			}
		}
	}
}

// A Group is the state of the records of one option.
type Group struct {
	Option    string
	Pending   int // records that wait, for their first or a further attempt
	InFlight  int // records in calls
	Failed    int // records that have failed
	Paused    bool
	Oldest    time.Time // arrival of the oldest pending record
	NextFlush time.Time // when it is due; in the past if it is due already
	LastCall  time.Time
	LastError string // of the last failed call or record; it can contain secrets
}

const mostGroups = 10_000 // that are listed

// Groups returns the groups of all processes, at most 10,000, the oldest groups first.
func (b *Batcher[T, R]) Groups(ctx context.Context) ([]Group, error) {
	found, err := b.store.Groups(ctx, b.line, b.settings().FlushAfter, mostGroups)
	b.up.EngineIs(ctx, err)
	all := make([]Group, len(found))
	for i, g := range found {
		all[i] = Group{g.Name, g.Pending, g.InFlight, g.Failed, g.Paused, g.Oldest, g.Next, g.LastCall, g.LastError}
	}
	return all, err
}

// rows returns a row for each group, for a page.
func (b *Batcher[T, R]) rows(ctx context.Context) (rows []registry.Row, err error) {
	all, err := b.Groups(ctx)
	for _, g := range all {
		row := registry.Row{Key: g.Option, Cells: []registry.Cell{
			{Name: "pending", Value: g.Pending},
			{Name: "in_flight", Value: g.InFlight},
			{Name: "failed", Value: g.Failed},
			{Name: "oldest", Value: g.Oldest},
			{Name: "next_flush", Value: g.NextFlush},
			{Name: "last_call", Value: g.LastCall},
			{Name: "last_error", Value: g.LastError, Secret: true},
			{Name: "paused", Value: g.Paused},
		}}
		offered := []bool{g.Pending > 0, !g.Paused, g.Paused, g.Failed > 0, g.Pending+g.Failed > 0}
		for i, v := range []groups.Verb{groups.Flush, groups.Pause, groups.Resume, groups.Retry, groups.Delete} {
			if offered[i] {
				row.Verbs = append(row.Verbs, string(v))
			}
		}
		if g.Failed > 0 {
			row.Alarm = registry.Failing
		} else if g.Paused {
			row.Alarm = registry.Notice
		}
		rows = append(rows, row)
	}
	return rows, err
}

// control applies a verb to a row that offers it.
func (b *Batcher[T, R]) control(ctx context.Context, verb, option string) (n int, err error) {
	return b.change(ctx, groups.Verb(verb), option)
}
