package batch

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"slices"
	"time"

	"github.com/gresil/gresil/internal/groups"
)

// A Result is the result of one record.
type Result[R any] struct {
	Value R
	// Err is the error of the record, or nil. With an Engine, only its text reaches other processes.
	Err error
}

// Call adds a record, and waits for its result, also if another process sends it. If ctx ends, the record stays and is
// sent. The error is that of Add, that of the record when it has failed, [ErrNotFound] if it was deleted, or the cause of
// ctx.
func (b *Batcher[T, R]) Call(ctx context.Context, record T) (value R, err error) {
	w := &waiter{id: rand.Text(), result: make(chan groups.Result, 1)}
	b.await(w)
	defer b.leave(w)
	id, err := b.add(ctx, w.id, record)
	if err != nil {
		return value, err
	}
	b.ask(w, id)
	select {
	case r := <-w.result:
		result, err := resultOf[R](r, r.ID != "")
		if err != nil {
			return value, err
		}
		return result.Value, result.Err
	case <-ctx.Done():
		return value, context.Cause(ctx)
	}
}

// Result returns the result of a record by its ID, and whether it is known: a record that waits, or is sent again, has
// none. Results are kept for ten minutes; after that, and for an ID that was never there, the error is [ErrNotFound]. A
// record that has failed is known as long as it is kept.
func (b *Batcher[T, R]) Result(ctx context.Context, id string) (result Result[R], done bool, err error) {
	all, err := b.store.Results(ctx, b.line, []string{id})
	if b.engineIs(ctx, err); err != nil {
		return result, false, err
	}
	r, ok := all[id]
	result, err = resultOf[R](r, ok)
	return result, err == nil && !r.Waits, err
}

func resultOf[R any](r groups.Result, found bool) (result Result[R], err error) {
	switch {
	case !found:
		return result, ErrNotFound
	case r.Err == nil && len(r.Value) > 0:
		err = json.Unmarshal(r.Value, &result.Value)
	}
	result.Err = r.Err
	return result, err
}

const (
	firstAsk = 50 * time.Millisecond
	lastAsk  = time.Second
)

// A waiter is a Call. It gets a Result without an ID if the record was deleted.
type waiter struct {
	id     string // of the record
	result chan groups.Result
	asks   bool // the record was added
}

func (b *Batcher[T, R]) await(w *waiter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiters[w.id] = append(b.waiters[w.id], w)
}

// ask lets a waiter have the result of a record also if another process sends it.
func (b *Batcher[T, R]) ask(w *waiter, id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if w.asks = true; id != w.id { // another record with its Key was there
		b.remove(w)
		w.id = id
		b.waiters[id] = append(b.waiters[id], w)
	}
	if b.asked == nil {
		b.asked = make(chan struct{}, 1)
		go b.receive(b.asked)
	}
	b.notice()
}

func (b *Batcher[T, R]) leave(w *waiter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.remove(w)
	if b.asked != nil && len(b.waiters) == 0 {
		b.notice()
	}
}

func (b *Batcher[T, R]) remove(w *waiter) {
	if left := slices.DeleteFunc(b.waiters[w.id], func(o *waiter) bool { return o == w }); len(left) > 0 {
		b.waiters[w.id] = left
	} else {
		delete(b.waiters, w.id)
	}
}

func (b *Batcher[T, R]) notice() {
	select {
	case b.asked <- struct{}{}:
	default:
	}
}

// deliver passes results to the Calls of this process.
func (b *Batcher[T, R]) deliver(results []groups.Result) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range results {
		b.answer(r.ID, r)
	}
}

func (b *Batcher[T, R]) answer(id string, r groups.Result) {
	for _, w := range b.waiters[id] {
		select {
		case w.result <- r:
		default: // it has one
		}
	}
}

// receive asks for the results of all Calls of this process together, while there are any: the longer nothing happens, the more
// rarely.
func (b *Batcher[T, R]) receive(asked <-chan struct{}) {
	wait := firstAsk
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-asked:
			if wait = firstAsk; b.idle() {
				return
			}
		case <-timer.C:
			if b.receiveNow() {
				wait = firstAsk
			}
		}
		timer.Reset(wait)
		wait = min(2*wait, lastAsk)
	}
}

// idle ends receive if no Call waits.
func (b *Batcher[T, R]) idle() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiters) > 0 {
		return false
	}
	b.asked = nil
	return true
}

// receiveNow asks for results, and reports whether there was one.
func (b *Batcher[T, R]) receiveNow() (some bool) {
	var ids []string
	b.mu.Lock()
	for id, all := range b.waiters {
		if slices.ContainsFunc(all, func(w *waiter) bool { return w.asks }) {
			ids = append(ids, id)
		}
	}
	b.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), opTimeout)
	defer cancel()
	found, err := b.store.Results(ctx, b.line, ids)
	if b.engineIs(ctx, err); err != nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, id := range ids {
		if r := found[id]; !r.Waits {
			b.answer(id, r)
			some = true
		}
	}
	return some
}
