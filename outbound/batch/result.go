package batch

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
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

// Call adds a record, and waits for its result, even if another process sends it. If ctx ends, the record is still
// sent. The error is that of Add, that of the record if it has failed, [ErrNotFound] if it was deleted, or the cause of
// ctx.
func (b *Batcher[T, R]) Call(ctx context.Context, record T) (value R, err error) {
	id, err := b.Add(ctx, record)
	if err != nil {
		return value, err
	}
	mine := make(chan groups.Result, 1)
	b.mu.Lock()
	b.waiting[id] = append(b.waiting[id], mine)
	b.mu.Unlock()
	defer b.leave(id, mine)
	timer := time.NewTimer(firstAsk)
	defer timer.Stop()
	for wait := firstAsk; ; wait = min(2*wait, lastAsk) {
		select {
		case r := <-mine:
			result, err := resultOf[R](r)
			return result.Value, cmp.Or(err, result.Err)
		case <-ctx.Done():
			return value, context.Cause(ctx)
		case <-timer.C:
			timer.Reset(b.ask(ctx, wait))
		}
	}
}

// Result returns the result of a record by its ID. done reports whether there is one: a record that still waits, or is
// to be sent again, has none. Results are kept for ten minutes; after that, and for an unknown ID, the error is
// [ErrNotFound]. A failed record has a result as long as it is kept.
func (b *Batcher[T, R]) Result(ctx context.Context, id string) (result Result[R], done bool, err error) {
	all, err := b.store.Results(ctx, b.line, []string{id})
	if b.up.EngineIs(ctx, err); err != nil {
		return result, false, err
	}
	r, ok := all[id]
	if !ok {
		return result, false, ErrNotFound
	}
	result, err = resultOf[R](r)
	return result, err == nil && !r.Waits, err
}

func resultOf[R any](r groups.Result) (result Result[R], err error) {
	if r.Err == nil && len(r.Value) > 0 {
		err = json.Unmarshal(r.Value, &result.Value)
	}
	result.Err = r.Err
	return result, err
}

const (
	firstAsk = 50 * time.Millisecond
	lastAsk  = time.Second
)

// leave ends the wait of a Call.
func (b *Batcher[T, R]) leave(id string, mine chan groups.Result) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting[id] = slices.DeleteFunc(b.waiting[id], func(c chan groups.Result) bool { return c == mine })
	if len(b.waiting[id]) == 0 {
		delete(b.waiting, id)
	}
}

// ask asks for the results of all Calls of this process together, unless one of them has done so within wait. It returns the time until
// this Call should ask again.
func (b *Batcher[T, R]) ask(ctx context.Context, wait time.Duration) time.Duration {
	b.mu.Lock()
	if soon := wait - time.Since(b.asked); soon > 0 {
		b.mu.Unlock()
		return soon
	}
	b.asked = time.Now()
	ids := slices.Collect(maps.Keys(b.waiting))
	b.mu.Unlock()
	found, err := b.store.Results(ctx, b.line, ids)
	if b.up.EngineIs(ctx, err); err != nil {
		return wait
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, id := range ids {
		if r, ok := found[id]; !ok {
			b.answer(groups.Result{ID: id, Err: ErrNotFound})
		} else if !r.Waits {
			b.answer(r)
		}
	}
	return wait
}

// answer passes results to the Calls of this process. The caller holds mu.
func (b *Batcher[T, R]) answer(results ...groups.Result) {
	for _, r := range results {
		for _, c := range b.waiting[r.ID] {
			c <- r
		}
		delete(b.waiting, r.ID)
	}
}
