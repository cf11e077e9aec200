package bench

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v5"
	failsafe "github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	failsafetimeout "github.com/failsafe-go/failsafe-go/timeout"
	"github.com/sony/gobreaker/v2"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/core/retry"
	"github.com/gresil/gresil/core/timeout"
)

const composed = "retry, breaker with a count window, and timeout"

func composeRows(Sizes) []Row {
	ctx := context.Background()
	run := func(do func(n int) (int, error)) Work {
		return Work{New: func() Op {
			n := 0
			return func(string) bool {
				n++
				got, err := do(n)
				return err == nil && got == n
			}
		}}
	}
	stack := func() (*retry.Policy, *breaker.Breaker, *timeout.Timeout) {
		return must(retry.New(retry.Config{})), must(breaker.New(breaker.Config{})), must(timeout.New(timeout.Config{Limit: time.Minute}))
	}
	byHand := ours("nested by hand", func() Work {
		r, b, t := stack()
		return run(func(n int) (int, error) {
			return retry.Do(ctx, r, func(ctx context.Context) (int, error) {
				return breaker.Do(ctx, b, func(ctx context.Context) (int, error) {
					return timeout.Do(ctx, t, func(context.Context) (int, error) { return answer(n) })
				})
			})
		})
	})
	pipeline := ours("core.Pipeline", func() Work {
		r, b, t := stack()
		p := must(core.NewPipeline(r, b, t))
		return run(func(n int) (int, error) {
			return core.Do(ctx, p, func(context.Context) (int, error) { return answer(n) })
		})
	})
	others := []Subject{
		peer("failsafe-go", func() Work {
			e := failsafe.With(
				retrypolicy.NewBuilder[int]().Build(),
				circuitbreaker.NewBuilder[int]().WithFailureThresholdRatio(50, windowCalls).Build(),
				failsafetimeout.New[int](time.Minute)).WithContext(ctx)
			return run(func(n int) (int, error) { return e.Get(func() (int, error) { return answer(n) }) })
		}),
		peer("backoff, gobreaker, context.WithTimeout", func() Work {
			b := gobreaker.NewCircuitBreaker[int](gobreaker.Settings{ReadyToTrip: rateReached})
			tries := backoff.WithMaxTries(attempts)
			return run(func(n int) (int, error) {
				return backoff.Retry(ctx, func() (int, error) {
					return b.Execute(func() (int, error) {
						ctx, cancel := context.WithTimeout(ctx, time.Minute)
						defer cancel()
						if err := ctx.Err(); err != nil {
							return 0, err
						}
						return answer(n)
					})
				}, tries)
			})
		}),
		floorOf("context.WithTimeout", func() Work {
			return run(func(n int) (int, error) {
				_, cancel := context.WithTimeout(ctx, time.Minute)
				defer cancel()
				return answer(n)
			})
		}),
	}
	return []Row{
		{Name: composed + ", nested by hand", Subjects: append([]Subject{byHand}, others...)},
		{Name: composed + ", in a pipeline", Subjects: append([]Subject{pipeline}, others...)},
	}
}
