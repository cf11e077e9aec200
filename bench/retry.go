package bench

import (
	"context"
	"time"

	retrygo "github.com/avast/retry-go/v5"
	"github.com/cenkalti/backoff/v5"
	"github.com/eapache/go-resiliency/retrier"
	failsafe "github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/retrypolicy"

	delay "github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/core/retry"
)

const attempts = 3

// An operation is retried, in both forms that retriers take. It succeeds in one attempt, which
// is given, and fails in all others.
type operation struct {
	plain  func() (int, error)
	within func(ctx context.Context) (int, error)
}

// attempt is one, of which the nth succeeds.
func (o *own) attempt(n int) (int, error) {
	if o.n++; o.n-o.before < n {
		return 0, errFailed
	}
	return answer(o.n)
}

func retryRows(Sizes) []Row {
	return append(serialAndParallel(Row{Name: "retry: first attempt succeeds", Subjects: retries(1)}),
		Row{Name: "retry: second attempt succeeds, no delay", Subjects: retries(2)})
}

// retries make n attempts, without a delay between them.
func retries(n int) []Subject {
	ctx := context.Background()
	run := func(do func(operation) (int, error)) Work {
		return Work{New: func() Op {
			tried := new(own)
			op := operation{
				plain:  func() (int, error) { return tried.attempt(n) },
				within: func(context.Context) (int, error) { return tried.attempt(n) },
			}
			return func(string) bool {
				tried.before = tried.n
				got, err := do(op)
				return err == nil && got == tried.n && tried.n == tried.before+n
			}
		}}
	}
	return []Subject{
		ours("retry.Do", func() Work {
			p := must(retry.New(retry.Config{MaxAttempts: attempts, Backoff: delay.Constant{}}))
			return run(func(op operation) (int, error) { return retry.Do(ctx, p, op.within) })
		}),
		peer("failsafe-go", func() Work {
			e := failsafe.With(retrypolicy.NewBuilder[int]().WithMaxAttempts(attempts).Build()).WithContext(ctx)
			return run(func(op operation) (int, error) { return e.Get(op.plain) })
		}),
		peer("backoff", func() Work {
			options := []backoff.RetryOption{backoff.WithBackOff(&backoff.ZeroBackOff{}), backoff.WithMaxTries(attempts)}
			return run(func(op operation) (int, error) { return backoff.Retry(ctx, op.plain, options...) })
		}),
		peer("retry-go, kept", func() Work {
			r := retrygo.NewWithData[int](retrygo.Context(ctx), retrygo.Attempts(attempts), retrygo.Delay(0), retrygo.DelayType(
				func(uint, error, retrygo.DelayContext) time.Duration { return 0 }))
			return run(func(op operation) (int, error) { return r.Do(op.plain) })
		}),
		peer("eapache", func() Work {
			r := retrier.New(make([]time.Duration, attempts-1), nil)
			return run(func(op operation) (got int, err error) {
				err = r.RunCtx(ctx, func(ctx context.Context) (err error) { got, err = op.within(ctx); return err })
				return got, err
			})
		}),
		floorOf("a loop", func() Work {
			return run(func(op operation) (got int, err error) {
				for range attempts {
					if got, err = op.plain(); err == nil {
						break
					}
				}
				return got, err
			})
		}),
	}
}
