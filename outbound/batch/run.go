package batch

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gresil/gresil/internal/groups"
	"github.com/gresil/gresil/internal/registry"
	"github.com/gresil/gresil/outbound/jobs"
)

const (
	again      = 10 * time.Second // after which a batch is enqueued again that nobody has loaded
	hesitation = time.Second      // after an error of the engine
	opTimeout  = 10 * time.Second // of an operation of the store
	leastPoll  = 20 * time.Millisecond
	mostPoll   = time.Second // other processes add records too
	ownPoll    = time.Hour   // each change wakes it
)

// Run sends the records of due groups until ctx ends or Close is called. Then it waits for the calls in flight, whose
// context does not end with ctx, and returns nil. An engine that fails does not end it.
func (b *Batcher[T, R]) Run(ctx context.Context) error {
	ended := make(chan struct{})
	if err := b.begin(ended); err != nil {
		return err
	}
	b.run(ctx, ended)
	return nil
}

// begin begins a Run, unless there is one, or the batcher is closed.
func (b *Batcher[T, R]) begin(ended chan struct{}) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.isClosed():
		return ErrClosed
	case b.ended != nil:
		return errRunning
	}
	b.ended = ended
	return nil
}

func (b *Batcher[T, R]) run(ctx context.Context, ended chan struct{}) {
	stopping, stop := context.WithCancel(ctx)
	calls, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	w := groups.Worker{Concurrency: b.settings().Concurrency, Handle: func(ctx context.Context, e groups.Entry) groups.Verdict {
		return b.handle(ctx, stopping, calls, e)
	}}
	var helpers sync.WaitGroup
	helpers.Go(func() {
		select {
		case <-b.cut:
			cut()
			stop()
		case <-stopping.Done():
			select {
			case <-b.cut:
				cut()
			case <-ended:
			}
		}
	})
	taken := make(chan struct{})
	go func() {
		defer close(taken)
		defer stop()
		b.take(stopping)
	}()
	b.queue.Run(stopping, b.line, w)
	stop()
	<-taken
	b.mu.Lock()
	b.ended = nil
	b.mu.Unlock()
	close(ended)
	helpers.Wait()
}

// take makes jobs of due groups, until ctx ends or the batcher is closed and drained.
func (b *Batcher[T, R]) take(ctx context.Context) {
	closing := b.closing
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for ctx.Err() == nil {
		if b.planned.Store(0); b.own {
			b.planned.Store(math.MaxInt64) // what is added from now on may be too late for this look
		}
		wait := b.look(ctx)
		switch {
		case wait == 0:
			continue
		case b.isClosed() && b.drained(ctx):
			return
		}
		b.planned.Store(time.Now().Add(wait).UnixNano())
		timer.Reset(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-b.wake:
		case <-closing:
			closing = nil
		}
	}
}

// look takes a batch, if a handler is free for it, and returns the time until the next look.
func (b *Batcher[T, R]) look(ctx context.Context) time.Duration {
	set := b.settings()
	poll := min(max(set.FlushAfter/4, leastPoll), mostPoll)
	if b.own {
		poll = ownPoll
	}
	free := set.Concurrency - int(b.flying.Load())
	if held := time.Until(time.Unix(0, b.held.Load())); held > 0 {
		return min(held, poll)
	}
	if free <= 0 || b.isClosed() && !b.own {
		return poll
	}
	short, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	batch, state, err := b.store.Take(short, b.line, groups.Terms{
		ID: rand.Text(), MaxRecords: set.MaxRecords, MaxBytes: set.MaxBytes, FlushAfter: set.FlushAfter, Ahead: free, Again: again,
	})
	if err == nil {
		b.known.Store(int64(state.Records))
	}
	if batch.ID != "" {
		job := groups.Job{ID: batch.ID + "." + strconv.Itoa(batch.Turn), Queue: b.line, MaxAttempts: -1}
		if batch.Losses > 0 {
			job.Meta = map[string]string{groups.Suspect: strconv.Itoa(batch.Losses)}
		}
		err = b.queue.Enqueue(short, job, math.MaxInt)
		if errors.Is(err, jobs.ErrExists) { // it was given again
			err = nil
		}
	}
	switch b.engineIs(ctx, err); {
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

// handle makes the call of a job, once the gate permits it, and notes its end. No call begins after stopping has ended, and calls
// return when the other context ends.
func (b *Batcher[T, R]) handle(ctx, stopping, calls context.Context, e groups.Entry) groups.Verdict {
	later := func(d time.Duration) groups.Verdict {
		return groups.Verdict{End: groups.Limited, At: time.Now().Add(d)}
	}
	if stopping.Err() != nil {
		return later(0)
	}
	id, turn, _ := strings.Cut(e.ID, ".")
	n, _ := strconv.Atoi(turn)
	short, cancel := context.WithTimeout(ctx, opTimeout)
	batch, err := b.store.Load(short, b.line, id, n)
	cancel()
	switch b.engineIs(ctx, err); {
	case err != nil:
		return later(hesitation)
	case batch.ID == "":
		return groups.Verdict{} // it was done before
	}
	b.flying.Add(1)
	defer b.poke()
	defer b.flying.Add(-1)
	b.poke() // another batch can be taken
	d := delivery[T, R]{Config: b.settings(), b: b, batch: batch, losses: e.Losses}
	ctx, cancel = context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(calls, cancel)()
	d.deliver(ctx, stopping, cancel)
	if !d.settle(ctx, stopping) {
		return later(hesitation)
	}
	return groups.Verdict{}
}

// engineIs reports that the engine has failed, or that it works again.
func (b *Batcher[T, R]) engineIs(ctx context.Context, err error) {
	if err != nil && ctx.Err() != nil {
		return
	}
	was := b.failing.Load() != (err != nil) && b.failing.Swap(err != nil)
	switch {
	case !b.life.Listening():
	case err != nil:
		b.life.Emit(ctx, registry.Event{Text: "engine failed", Warn: true, Outage: true, Attrs: []slog.Attr{slog.Any("err", err)}})
	case was:
		b.life.Emit(ctx, registry.Event{Text: "engine has recovered", Outage: true})
	}
}
