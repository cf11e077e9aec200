package retry_test

import (
	"context"
	"fmt"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/core/retry"
)

// An adapter decides by itself what is worth another attempt, and does something
// between the attempts.
func ExampleCall() {
	p := core.Must(retry.New(retry.Config{Backoff: backoff.Constant{}}))
	send := func(_ context.Context, retries int) (status int) { return []int{503, 503, 200}[retries] }

	ctx := context.Background()
	c := p.Begin(nil)
	for {
		status := send(c.Context(ctx), c.Info().Retry)
		verdict := c.Next(ctx, retry.Attempt{Result: status, Retryable: status >= 500})
		fmt.Println(status, verdict)
		if verdict != retry.Again {
			return
		}
		if err := c.Wait(ctx); err != nil {
			fmt.Println(err)
			return
		}
	}
	// Output:
	// 503 again
	// 503 again
	// 200 done
}

// The counters of a policy, and the verdict by which a retry was suppressed.
func ExamplePolicy_Stats() {
	p := core.Must(retry.New(retry.Config{Backoff: backoff.Constant{}}))
	errors := []error{fmt.Errorf("busy"), nil, core.ErrRejected}
	for range 2 {
		_, _ = retry.Do(context.Background(), p, func(context.Context) (int, error) {
			err := errors[0]
			errors = errors[1:]
			return 0, err
		})
	}
	s := p.Stats()
	fmt.Println(s.Recovered, s.Retries, s.Failed)
	for verdict, n := range s.Suppressed {
		if n > 0 {
			fmt.Println(retry.Verdict(verdict), n)
		}
	}
	// Output:
	// 1 1 1
	// rejected 1
}
