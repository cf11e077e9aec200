package dispatch_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/internal/escalating"
	"github.com/gresil/gresil/outbound/dispatch"
)

// With few calls in flight, the same load does not trip the vendor, without a Limiter. With
// many, a vendor that pardons nothing is served all the same, after some escalations.
func TestTheCapacityDecidesWhetherTheVendorTrips(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		grace    time.Duration
		capacity int
		trips    int
		most     time.Duration
	}{
		"few, pardons calls on their way": {time.Second, 8, 0, 160 * time.Second},
		"few, pardons nothing":            {0, 8, 0, 160 * time.Second},
		"many, pardons nothing":           {0, 60, 10, 3 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const calls = 6000
				v, d := escalating.New(c.grace, 1), newDispatcher(t, config{Capacity: c.capacity, Attempts: 100})
				served, took := run(t, calls, 120, func(ctx context.Context, n string) error {
					_, err := dispatch.Do(ctx, d, "", func(ctx context.Context, _ none) (int, error) {
						wait, err := v.Call(ctx, n)
						if wait > 0 {
							err = limited(wait)
						}
						return 0, err
					})
					return err
				})
				t.Logf("%v, %+v", took, v.Verdict())
				require.Equal(t, calls, served)
				require.LessOrEqual(t, v.Verdict().Trips, c.trips)
				require.LessOrEqual(t, took, c.most)
			})
		})
	}
}
