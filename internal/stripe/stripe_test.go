package stripe_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/internal/stripe"
)

func TestCounterLosesNothing(t *testing.T) {
	t.Parallel()
	var c stripe.Counter
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 10_000 {
				c.Inc()
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 160_000, c.Load())
}
