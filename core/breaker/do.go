package breaker

import (
	"context"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/blame"
)

// Do runs operation in the caller's goroutine if b admits it. Otherwise the error is an [*OpenError].
func Do[T any](ctx context.Context, b *Breaker, operation func(context.Context) (T, error)) (T, error) {
	permit, err := b.Acquire(ctx)
	if err != nil {
		return *new(T), err
	}
	outcome := running
	defer func() {
		if outcome == running {
			if v := recover(); v != nil { // nil after a Goexit
				defer panic(v)
				outcome = core.Failure
			}
		}
		permit.Done(outcome)
	}()
	result, err := operation(ctx)
	outcome = core.Ignored // if Classify panics
	if classify := b.config(ctx).Classify; classify != nil {
		outcome = classify(ctx, result, err)
	} else {
		outcome = Classify(ctx, nil, err) // as an any the result would be allocated
	}
	return result, blame.Strip(err)
}

// running is the outcome of an operation that has not returned. It counts as [core.Ignored].
const running = core.Failure + 1

// Run does the same as [Do]. It makes a Breaker a core.Mechanism.
func (b *Breaker) Run(ctx context.Context, next core.Next) (any, error) { return Do(ctx, b, next.Run) }

// Classify is the default of Config.Classify. No error is a core.Success. An error is a core.Failure, also that of a deadline,
// whoever set it. It is core.Ignored if the caller has canceled ctx, and if it is a rejection (core.ErrRejected). An operation that
// panics has failed; one that ends its goroutine is ignored.
func Classify(ctx context.Context, _ any, err error) core.Outcome { return blame.Judge(ctx, err) }
