package batch

import (
	"context"
	"crypto/rand"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gresil/gresil/internal/groups"
)

const (
	again      = 10 * time.Second // after which a batch that was not loaded is enqueued again
	hesitation = time.Second      // after an error of the engine
	leastPoll  = 20 * time.Millisecond
	mostPoll   = time.Second // other processes add records too
)

// Run sends the records of due groups until ctx ends or Close is called. Then it waits for the calls in flight, whose
// contexts do not end with ctx, and returns nil. An error of the engine does not end it.
func (b *Batcher[T, R]) Run(ctx context.Context) error { return b.up.Run(ctx, nil, b.work) }

func (b *Batcher[T, R]) work(stopping, working context.Context) {
	stopping, stop := context.WithCancel(stopping)
	var running sync.WaitGroup
	running.Go(func() {
		b.queue.Run(stopping, b.line, groups.Worker{
			Concurrency: b.settings().Concurrency,
			Handle:      func(ctx context.Context, e groups.Entry) groups.Verdict { return b.handle(ctx, stopping, working, e) },
		})
	})
	// Jobs are made of due groups until the batcher is closed and, if the engine is its own, nothing is left.
	for stopping.Err() == nil && (!b.up.Closed() || b.own && b.left(stopping)) {
		groups.Sleep(stopping, b.look(stopping), b.wake)
	}
	stop()
	running.Wait()
}

// look takes a batch of a due group, if a handler is free, and makes a job of it. It returns the time until the next look.
func (b *Batcher[T, R]) look(ctx context.Context) time.Duration {
	set := b.settings()
	poll := set.FlushAfter // so that records added meanwhile are seen before they are due
	if !b.own {
		poll = min(poll/4, mostPoll)
	}
	poll = max(poll, leastPoll)
	if held := time.Until(time.Unix(0, b.held.Load())); held > 0 && held < groups.LongestHold { // the clock can be set back
		return min(held, poll)
	}
	free := set.Concurrency - int(b.flying.Load())
	if free <= 0 {
		return poll
	}
	terms := groups.Terms{ID: rand.Text(), MaxRecords: set.MaxRecords, MaxBytes: set.MaxBytes, FlushAfter: set.FlushAfter, Ahead: free, Again: again}
	if b.sized != set.FlushSize {
		terms.FlushSize = set.FlushSize
	}
	batch, state, err := b.store.Take(ctx, b.line, terms)
	if err == nil {
		b.sized = set.FlushSize
		b.known.Store(int64(state.Records))
	}
	if batch.ID != "" {
		job := groups.Job{ID: batch.ID + "." + strconv.Itoa(batch.Turn), Queue: b.line, MaxAttempts: -1}
		if batch.Losses > 0 {
			job.Meta = map[string]string{groups.Suspect: strconv.Itoa(batch.Losses)}
		}
		if err = b.queue.Enqueue(ctx, job, math.MaxInt); errors.Is(err, groups.ErrExists) { // the store gave it once more
			err = nil
		}
	}
	switch b.up.EngineIs(ctx, err); {
	case err != nil:
		return hesitation
	case batch.ID != "":
		return 0
	case state.Next >= 0:
		poll = min(poll, state.Next)
	}
	return max(poll, time.Millisecond)
}

// left reports whether there are records that Run sends.
func (b *Batcher[T, R]) left(ctx context.Context) bool {
	all, _ := b.store.Groups(ctx, b.line, math.MaxInt64, math.MaxInt) // memory does not fail
	return slices.ContainsFunc(all, func(g groups.Group) bool { return g.InFlight > 0 || g.Pending > 0 && !g.Paused })
}

// handle makes the call of a job, once the gate permits it, and notes its end. No call begins after stopping has ended. The contexts of
// calls end with working.
func (b *Batcher[T, R]) handle(ctx, stopping, working context.Context, e groups.Entry) groups.Verdict {
	if stopping.Err() != nil {
		return groups.Verdict{End: groups.Limited}
	}
	id, turn, _ := strings.Cut(e.ID, ".")
	n, _ := strconv.Atoi(turn)
	batch, err := b.store.Load(ctx, b.line, id, n)
	b.up.EngineIs(ctx, err)
	ended := err == nil
	if ended && batch.ID != "" { // otherwise it was done before
		b.flying.Add(1)
		defer b.poke()
		defer b.flying.Add(-1)
		d := delivery[T, R]{Config: b.settings(), b: b, batch: batch, died: e.Losses > 0, losses: e.Losses + batch.Losses}
		d.deliver(ctx, stopping, working)
		ended = d.settle(ctx, stopping)
	}
	if ended {
		return groups.Verdict{}
	}
	return groups.Verdict{End: groups.Limited, At: time.Now().Add(hesitation)}
}
