package batch

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// A delivery is a leased batch, until it is settled.
type delivery[T, R any] struct {
	b     *Batcher[T, R]
	ctx   context.Context //nolint:containedctx // of the call and of the operations of the store
	set   *setting[T, R]
	batch *Batch

	stop  func()        // ends the renewal of the lease
	marks chan mark     // for the renewal
	ended chan struct{} // closed when the renewal has ended
	start time.Time     // before the lease
	fresh atomic.Int64  // the last renewal, since start
	lost  atomic.Bool
}

// take begins the delivery of a batch, whose lease is renewed from now on.
func (b *Batcher[T, R]) take(ctx context.Context, set *setting[T, R], batch *Batch, start time.Time) *delivery[T, R] {
	d := &delivery[T, R]{b: b, ctx: ctx, set: set, batch: batch, marks: make(chan mark), ended: make(chan struct{}), start: start}
	renewing, cancel := context.WithCancel(ctx)
	go d.renew(renewing)
	d.stop = func() {
		cancel()
		<-d.ended
	}
	if batch.Expired {
		b.redelivered.Add(1)
		b.call(ctx, b.life.Hooks().Redelivered, Info{Option: batch.Option, Key: batch.ID, Records: len(batch.Records)})
	}
	return d
}

// A mark is what extend asks the renewal for.
type mark struct {
	waiting bool
	done    chan error
}

// extend renews the lease at once, as one that waits or as one for a call. Only the renewal calls Extend,
// so that the store executes them in their order.
func (d *delivery[T, R]) extend(waiting bool) error {
	m := mark{waiting, make(chan error, 1)}
	select {
	case d.marks <- m:
		return <-m.done
	case <-d.ended:
		return ErrLeaseLost
	}
}

// renew renews the lease until ctx ends.
func (d *delivery[T, R]) renew(ctx context.Context) {
	defer close(d.ended)
	ticker := time.NewTicker(d.set.Lease / 3)
	defer ticker.Stop()
	for waiting := false; ; {
		done := make(chan error, 1)
		select {
		case <-ticker.C:
		case m := <-d.marks:
			waiting, done = m.waiting, m.done
		case <-ctx.Done():
			return
		}
		at := time.Since(d.start)
		err := d.b.store.Extend(ctx, d.b.method, d.batch.ID, d.batch.Delivery, d.set.Lease, waiting)
		done <- err
		switch {
		case err == nil:
			d.fresh.Store(int64(at))
		case errors.Is(err, ErrLeaseLost):
			d.lost.Store(true)
			return
		case ctx.Err() == nil:
			_ = d.b.storeFails(ctx, err)
		}
	}
}

// age returns the time since the lease was renewed.
func (d *delivery[T, R]) age() time.Duration {
	return time.Since(d.start) - time.Duration(d.fresh.Load())
}

// send makes the call and settles the batch.
func (d *delivery[T, R]) send(v *verdict[T, R]) {
	defer d.stop()
	if d.lost.Load() || d.age() >= d.set.Lease { // this process stood still: another one may send it
		d.giveBack()
		return
	}
	if len(v.records) > 0 {
		results, err := d.b.attempt(d.ctx, d.set, d.batch.ID, d.batch.Option, v.records)
		v.judge(results, err)
	}
	if d.settle(v.settlement) {
		v.report()
	}
}

// conclude settles the batch without a call.
func (d *delivery[T, R]) conclude(v *verdict[T, R]) {
	defer d.stop()
	if d.settle(v.settlement) {
		v.report()
	}
}

// giveBack returns the batch as it was.
func (d *delivery[T, R]) giveBack() {
	defer d.stop()
	all := make([]int, len(d.batch.Records))
	for i := range all {
		all[i] = i
	}
	d.settle(Settlement{ID: d.batch.ID, Delivery: d.batch.Delivery, MaxFailed: d.set.MaxFailed, Parts: []Part{{ID: d.batch.ID, Records: all, Losses: d.batch.Losses}}})
}

// settle repeats Settle until the store has executed it, and reports whether this batch was still leased.
// It gives up after two lease times, also if the lease could be renewed: then the batch is sent again.
func (d *delivery[T, R]) settle(s Settlement) bool {
	b, begun := d.b, time.Now()
	for {
		ctx, cancel := context.WithTimeout(d.ctx, max(d.set.Lease, time.Second))
		err := b.store.Settle(ctx, b.method, s)
		cancel()
		switch {
		case err == nil:
			b.storeWorks(d.ctx)
			if len(s.Parts) > 0 {
				b.poke()
			}
			return true
		case errors.Is(err, ErrLeaseLost):
			b.lost.Add(1)
			return false
		}
		_ = b.storeFails(d.ctx, err)
		if time.Since(begun) > 2*d.set.Lease {
			b.lost.Add(1)
			return false
		}
		time.Sleep(min(hesitate, d.set.Lease/4))
	}
}
