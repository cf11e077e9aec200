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
	outcome, returned := core.Ignored, false
	defer func() {
		if !returned {
			if v := recover(); v != nil { // nil after a Goexit
				defer panic(v)
				outcome = core.Failure
			}
		}
		permit.Done(outcome)
	}()
	result, err := operation(ctx)
	returned = true
	if classify := b.config(ctx).Classify; classify != nil {
		outcome = classify(ctx, result, err)
	} else {
		outcome = Classify(ctx, nil, err) // converting the result to any would allocate
	}
	return result, blame.Strip(err)
}

// Run does the same as [Do]. It makes the Breaker a core.Mechanism.
func (b *Breaker) Run(ctx context.Context, next core.Next) (any, error) { return Do(ctx, b, next.Run) }

// Classify is the default of Config.Classify. It returns core.Success if err is nil; core.Ignored if the caller has canceled ctx, or err is
// a rejection (core.ErrRejected); and core.Failure for any other error, that of a deadline included, whoever set it. An operation that
// panics counts as a failure; one that ends its goroutine is ignored.
func Classify(ctx context.Context, _ any, err error) core.Outcome { return blame.Judge(ctx, err) }
