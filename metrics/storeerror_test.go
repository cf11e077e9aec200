package metrics_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
)

// A cost above the capacity is refused without the store: it is throttled, and no error.
func TestAnOperationHasOneResultWhenTheStoreFails(t *testing.T) {
	t.Parallel()
	for _, policy := range []ratelimit.FailurePolicy{ratelimit.Allow, ratelimit.Deny, ratelimit.Local} {
		registry := &core.Registry{}
		store := downStore{core.Must(ratelimit.NewMemory(0))}
		l := core.Must(ratelimit.New(ratelimit.Config{Name: "api", Registry: registry, Limit: ratelimit.PerMinute(10), Store: store, OnStoreError: policy}))
		for _, cost := range []int64{1, 11} {
			_, _ = l.Take(t.Context(), "k", cost)
		}
		total := 0.0
		for _, value := range samples(t, newGatherer(t, registry), "ratelimit_requests_total") {
			total += value
		}
		require.InDelta(t, 2, total, 0, policy)
	}
}
