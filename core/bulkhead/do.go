package bulkhead

import (
	"context"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/blame"
)

// Do runs operation in the caller's goroutine if b admits it, as a call of the empty key
// with weight 1, and returns its result; otherwise it returns the error of
// [Bulkhead.Acquire], and operation does not run. The permit is returned when operation
// has returned, panicked or ended its goroutine. The context of operation is that of
// [Permit.Context]. Config.Classify returns the outcome; a
// call that did not return is [core.Ignored].
func Do[T any](ctx context.Context, b *Bulkhead, operation func(context.Context) (T, error)) (T, error) {
	permit, err := b.Acquire(ctx, "")
	if err != nil {
		var none T
		return none, err
	}
	outcome := core.Ignored
	defer func() { permit.Done(outcome) }()
	result, err := operation(permit.Context()) //nolint:contextcheck // it is derived from ctx
	if permit.generation != 0 {
		if cfg := b.config(); cfg.Classify != nil {
			outcome = cfg.Classify(ctx, result, err)
		} else {
			outcome = blame.Judge(ctx, err)
		}
	}
	return result, err
}

// Run makes a Bulkhead a [core.Mechanism]. It does the same as [Do].
func (b *Bulkhead) Run(ctx context.Context, next core.Next) (any, error) { return Do(ctx, b, next.Run) }
