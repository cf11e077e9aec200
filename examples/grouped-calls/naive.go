package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// naive is an algorithm that makes a call for each record, at once. A call that is refused is not
// repeated.
type naive struct{ *worker }

func (naive) add(context.Context) error { return nil }

func (naive) stop() error { return nil }

func (w naive) run(ctx context.Context) error {
	var calls sync.WaitGroup
	defer calls.Wait()
	free := make(chan struct{}, sockets)
	return w.numbers(func(n int) error {
		select {
		case free <- struct{}{}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		calls.Go(func() {
			w.single(ctx, newRecord(w.Run, n, w.Options))
			<-free
		})
		return nil
	})
}

// single calls the vendor with one record.
func (w naive) single(ctx context.Context, r record) {
	key := fmt.Sprintf("%s/%d", w.Run, r.Number)
	results, err := w.call(ctx, key, r.option, []record{r})
	if err == nil && len(results) != 1 {
		err = fmt.Errorf("the vendor answers with %d results to 1 record", len(results))
	}
	if err == nil && !results[0].OK {
		err = errors.New(results[0].Error)
	}
	if err != nil {
		w.fail(1, err)
		return
	}
	w.say("served 1 %s", key)
}
