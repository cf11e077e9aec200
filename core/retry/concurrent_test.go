package retry_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/core/retry"
)

func TestPolicyUnderConcurrentUse(t *testing.T) {
	t.Parallel()
	p := core.Must(retry.New(retry.Config{Backoff: backoff.Constant{}}))
	var wg sync.WaitGroup
	const goroutines, calls = 8, 300
	for i := range goroutines {
		wg.Go(func() {
			for n := range calls {
				switch (i + n) % 3 {
				case 0:
					_ = p.SetConfig(retry.Config{Backoff: backoff.Constant{}})
					_, _ = retry.Do(t.Context(), p, (&script{ends: []error{nil}}).run)
				case 1:
					_, _ = retry.Do(t.Context(), p, (&script{ends: []error{errBoom, nil}}).run)
				case 2:
					_, _ = retry.Do(t.Context(), p, (&script{ends: []error{errBoom}}).run)
				}
			}
		})
	}
	wg.Wait()
	const each = goroutines * calls / 3
	require.Equal(t, retry.Stats{
		Succeeded: each, Recovered: each, FailedRetried: each,
		Retries: 3 * each, RetryableFailures: 4 * each,
	}, p.Stats())
}
