package batch

import (
	"context"
	"errors"
	"fmt"
	"time"
)

type keyOfCall struct{}

// IdempotencyKey returns the key of the call that a Send with this context makes, or "". It is the same
// whenever this call is made again, by any process: when it has returned an error, or its process has
// stopped. No other call has it. Records that a call has answered with an error of their own are sent
// again in another call, and so are the halves of a call whose processes have ended twice.
func IdempotencyKey(ctx context.Context) string {
	key, _ := ctx.Value(keyOfCall{}).(string)
	return key
}

// grace is how long a Send may take to return after its context has ended.
const grace = time.Second

// An answer is what Send returned.
type answer[R any] struct {
	results []Result[R]
	err     error
}

// attempt makes one call, and reports it. It returns a result for each record, or an error.
func (b *Batcher[T, R]) attempt(ctx context.Context, set *setting[T, R], key, option string, records []T) ([]Result[R], error) {
	start := time.Now()
	ctx, cancel := context.WithTimeoutCause(context.WithValue(ctx, keyOfCall{}, key), set.Timeout, &timeoutError{after: set.Timeout})
	defer cancel()
	answers := make(chan answer[R], 1)
	go func() {
		a := answer[R]{err: errors.New("batch: Send ended its goroutine")}
		defer func() { answers <- a }()
		a.results, a.err = guarded(ctx, set, option, records)
	}()
	a := b.collect(ctx, set, answers)
	if a.err == nil && len(a.results) != len(records) {
		a.err = fmt.Errorf("batch: Send returned %d results for %d records", len(a.results), len(records))
	}
	if a.err != nil {
		b.callsFailed.Add(1)
	} else {
		b.answered.Add(1)
	}
	b.call(ctx, b.life.Hooks().Called, Info{Option: option, Key: key, Records: len(records), Took: time.Since(start), Err: a.err})
	return a.results, a.err
}

// guarded calls Send, and returns a panic as an error. The errors can be used.
func guarded[T, R any](ctx context.Context, set *setting[T, R], option string, records []T) (results []Result[R], err error) {
	err = guard("Send", func() (err error) {
		results, err = set.Send(ctx, option, records)
		return err
	})
	if err != nil {
		return results, usable(err)
	}
	for i := range results {
		if failed := results[i].Err; failed != nil {
			if is := usable(failed); is != failed { //nolint:errorlint // it is another one
				results[i].Err = is
			}
		}
	}
	return results, nil
}

// collect waits for the answer of Send, until the grace is over.
func (b *Batcher[T, R]) collect(ctx context.Context, set *setting[T, R], answers <-chan answer[R]) answer[R] {
	select {
	case a := <-answers:
		return a
	case <-ctx.Done():
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case a := <-answers:
		return a
	case <-timer.C:
		b.abandoned.Add(1)
		if cause := context.Cause(ctx); !errors.As(cause, new(*timeoutError)) { // that of the caller of an exempt record
			return answer[R]{err: cause}
		}
		return answer[R]{err: &timeoutError{after: set.Timeout, abandoned: true}}
	}
}

// sendAlone sends an exempt record.
func (b *Batcher[T, R]) sendAlone(ctx context.Context, set *setting[T, R], id string, record T) (value R, err error) {
	if err := b.admit(ctx); err != nil {
		return value, err
	}
	b.direct.Add(1)
	results, err := b.attempt(ctx, set, id, set.Option(record), []T{record})
	if err != nil {
		return value, err
	}
	return results[0].Value, results[0].Err
}
