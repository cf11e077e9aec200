package batch

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/gresil/gresil/internal/blame"
	"github.com/gresil/gresil/outbound/pace"
)

const (
	poll     = time.Second            // the longest time after which Run looks for due groups
	hesitate = 250 * time.Millisecond // the wait after an error of the store
)

// Run sends the records of due groups until ctx ends, or Close is called. Then it waits for the calls in
// flight, whose context does not end with ctx, and returns nil. Records that were not sent stay in the
// store. Errors of the store do not end it: it tries again. It returns [ErrRunning] if it runs
// already, and the error of a Pacer that was closed.
func (b *Batcher[T, R]) Run(ctx context.Context) error {
	if !b.running.CompareAndSwap(false, true) {
		return ErrRunning
	}
	defer b.running.Store(false)
	ctx, cancel := b.lifetime(ctx)
	defer cancel()
	f := feeder[T, R]{b: b, landed: make(chan struct{}, 1)}
	defer f.calls.Wait()
	for {
		err := f.next(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, pace.ErrClosed):
			return err
		case err != nil:
			_ = b.sleep(ctx, hesitate)
		}
	}
}

// lifetime returns a context that also ends with the batcher.
func (b *Batcher[T, R]) lifetime(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-b.done:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// A feeder starts the calls of one Run: it waits for a due group, for a permit, and takes a batch.
type feeder[T, R any] struct {
	b      *Batcher[T, R]
	permit pace.Permit   // not used yet
	failed bool          // the Pacer has, and has given no permit since
	landed chan struct{} // has an element if a call has ended
	calls  sync.WaitGroup
	due    bool   // as of the last lease
	id     string // of the next new batch, if its lease has failed
}

// next starts one call, or waits until it may be time for one.
func (f *feeder[T, R]) next(ctx context.Context) error {
	b, set := f.b, f.b.setting()
	if b.flying.Load() >= int64(set.Concurrency) {
		return f.wait(ctx, f.landed, poll)
	}
	if !f.due {
		state, err := b.ready(ctx)
		if err != nil {
			return err
		}
		if f.due = state.Due; !f.due {
			next := state.Next
			if next < 0 || next > poll {
				next = poll
			}
			return f.wait(ctx, b.wake, next)
		}
	}
	if err := f.pace(ctx, set); err != nil {
		return err
	}
	if f.id == "" {
		f.id = b.newID()
	}
	asked := time.Now()
	leasing, cancel := context.WithTimeout(context.WithoutCancel(ctx), set.Lease) // a lost reply costs the time of a lease
	defer cancel()
	batch, state, err := b.store.Lease(leasing, b.method, Terms{
		ID: f.id, MaxRecords: set.MaxRecords, MaxBytes: set.MaxBytes, FlushAfter: set.FlushAfter, Lease: set.Lease,
	})
	if err != nil {
		return b.storeFails(ctx, err) // it is repeated with this ID
	}
	f.id, f.due = "", state.Due
	b.storeWorks(ctx)
	b.known.Store(int64(state.Records))
	if len(batch.Records) == 0 {
		b.unused.Add(1)
		return nil
	}
	f.start(ctx, set, &batch, asked)
	return nil
}

// start makes the call of a batch in a goroutine. If the permit is stale by now, it waits for another
// one before. The records are decoded before that: it takes time.
func (f *feeder[T, R]) start(ctx context.Context, set *setting[T, R], batch *Batch, asked time.Time) {
	d := f.b.take(context.WithoutCancel(ctx), set, batch, asked)
	if batch.Losses >= suspicious {
		f.fly(func() { d.suspect(ctx) })
		return
	}
	v := d.open()
	err := f.persist(ctx, func() error { return f.pace(ctx, set) })
	f.permit = pace.Permit{}
	f.fly(func() {
		if err != nil {
			d.giveBack()
			return
		}
		d.send(v)
	})
}

// fly calls a function in a goroutine, as a call in flight.
func (f *feeder[T, R]) fly(call func()) {
	f.b.flying.Add(1)
	f.calls.Go(func() {
		defer func() {
			f.b.flying.Add(-1)
			select {
			case f.landed <- struct{}{}:
			default:
			}
		}()
		call()
	})
}

// persist repeats what fails, unless that does not help.
func (f *feeder[T, R]) persist(ctx context.Context, try func() error) error {
	for {
		err := try()
		if err == nil || ctx.Err() != nil || errors.Is(err, pace.ErrClosed) || errors.Is(err, ErrLeaseLost) {
			return err
		}
		_ = f.b.sleep(ctx, hesitate)
	}
}

// pace waits for a permit, unless there is one that is fresh.
func (f *feeder[T, R]) pace(ctx context.Context, set *setting[T, R]) error {
	if set.Pacer == nil || f.permit.Cost > 0 && !f.permit.Stale() {
		return nil
	}
	var err error
	f.permit, err = set.Pacer.Wait(ctx, f.b.method, 1)
	switch {
	case err != nil && ctx.Err() == nil:
		f.failed = true
		f.b.call(ctx, f.b.life.Hooks().StoreFailed, Info{Err: err})
	case err == nil && f.failed:
		f.failed = false
		f.b.call(ctx, f.b.life.Hooks().StoreRecovered, Info{})
	}
	return err
}

// wait returns after a signal, a time, or the end of ctx.
func (f *feeder[T, R]) wait(ctx context.Context, signal <-chan struct{}, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-signal:
	case <-timer.C:
	case <-ctx.Done():
	}
	return nil
}

// sleep waits for a time, or until ctx or the batcher ends.
func (b *Batcher[T, R]) sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-b.done:
		return ErrClosed
	}
}

// ready asks the store for due groups.
func (b *Batcher[T, R]) ready(ctx context.Context) (State, error) {
	state, err := b.store.Ready(ctx, b.method, b.setting().FlushAfter)
	if err != nil {
		return state, b.storeFails(ctx, err)
	}
	b.storeWorks(ctx)
	b.known.Store(int64(state.Records))
	return state, nil
}

// storeFails counts an error of the store, and returns it as one of this package.
func (b *Batcher[T, R]) storeFails(ctx context.Context, err error) error {
	if blame.EndedBy(ctx, err) {
		return context.Cause(ctx)
	}
	b.errors.Add(1)
	err = &storeError{err}
	b.call(ctx, b.life.Hooks().StoreFailed, Info{Err: err})
	b.storeDown.Store(true) // after the hook: StoreRecovered follows it
	return err
}

// storeWorks notes that the store has executed an operation.
func (b *Batcher[T, R]) storeWorks(ctx context.Context) {
	if b.storeDown.Load() && b.storeDown.CompareAndSwap(true, false) {
		b.call(ctx, b.life.Hooks().StoreRecovered, Info{})
	}
}
