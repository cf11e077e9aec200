package batch

import (
	"context"
	"crypto/rand"
	"errors"
	"math"
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
	var taking sync.WaitGroup
	defer taking.Wait()
	defer stop()
	taking.Go(func() {
		defer stop()
		b.take(stopping)
	})
	b.queue.Run(stopping, b.line, groups.Worker{
		Concurrency: b.settings().Concurrency,
		Handle:      func(ctx context.Context, e groups.Entry) groups.Verdict { return b.handle(ctx, stopping, working, e) },
	})
}

// take makes jobs of due groups, until ctx ends or the batcher is closed and drained.
func (b *Batcher[T, R]) take(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for ctx.Err() == nil && (!b.up.Closed() || !b.drained(ctx)) {
		wait := b.look(ctx)
		if wait == 0 {
			continue
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-b.wake:
		}
	}
}

// look takes a batch of a due group, if a handler is free, and returns the time until the next look.
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
	if free <= 0 || b.up.Closed() && !b.own {
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
		err = b.queue.Enqueue(ctx, job, math.MaxInt)
		if errors.Is(err, groups.ErrExists) { // the store gave it once more
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

// drained reports whether nothing is left that Run sends, after Close.
func (b *Batcher[T, R]) drained(ctx context.Context) bool {
	if !b.own {
		return true
	}
	all, _ := b.store.Groups(ctx, b.line, math.MaxInt64, math.MaxInt) // memory does not fail
	for _, g := range all {
		if g.InFlight > 0 || g.Pending > 0 && !g.Paused {
			return false
		}
	}
	return true
}

// handle makes the call of a job, once the gate permits it, and notes its end. No call begins after stopping has ended. The contexts of
// calls end with working.
func (b *Batcher[T, R]) handle(ctx, stopping, working context.Context, e groups.Entry) groups.Verdict {
	later := groups.Verdict{End: groups.Limited}
	if stopping.Err() != nil {
		return later
	}
	later.At = time.Now().Add(hesitation)
	id, turn, _ := strings.Cut(e.ID, ".")
	n, _ := strconv.Atoi(turn)
	batch, err := b.store.Load(ctx, b.line, id, n)
	switch b.up.EngineIs(ctx, err); {
	case err != nil:
		return later
	case batch.ID == "":
		return groups.Verdict{} // it was done before
	}
	b.flying.Add(1)
	defer b.poke()
	defer b.flying.Add(-1)
	d := delivery[T, R]{Config: b.settings(), b: b, batch: batch, losses: e.Losses}
	d.deliver(ctx, stopping, working)
	if !d.settle(ctx, stopping) {
		later.At = time.Now().Add(hesitation)
		return later
	}
	return groups.Verdict{}
}
