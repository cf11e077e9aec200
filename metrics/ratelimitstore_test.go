package metrics_test

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/limitstore"
)

// A sharedStore is one that has counted.
type sharedStore struct{ stats limitstore.Stats }

func (s *sharedStore) Stats() limitstore.Stats { return s.stats }

func TestASharedStore(t *testing.T) {
	t.Parallel()
	r := &core.Registry{}
	g := newGatherer(t, r)
	s := &sharedStore{stats: limitstore.Stats{Decided: 1, Denied: 2, Local: 3, Timeouts: 4, Failed: 5, Unsent: 6, Sent: 7, Unavailable: true}}
	s.stats.RoundTrips, s.stats.RoundTripTime = 16, 3*time.Second/2
	s.stats.RoundTripsWithin = map[time.Duration]uint64{100 * time.Microsecond: 10, 250 * time.Microsecond: 10, time.Millisecond: 15}
	remove, err := limitstore.Register(r, "Name", "redis", s)
	require.NoError(t, err)
	require.Equal(t, map[string]float64{
		"ratelimitstore_operations_total redis decided": 1, "ratelimitstore_operations_total redis denied": 2,
		"ratelimitstore_local_operations_total redis": 3, "ratelimitstore_operations_total redis timeout": 4,
		"ratelimitstore_operations_total redis error": 5, "ratelimitstore_operations_total redis unsent": 6,
		"ratelimitstore_sent_operations_total redis": 7, "ratelimitstore_unavailable redis": 1,
		"ratelimitstore_round_trip_seconds redis count": 16, "ratelimitstore_round_trip_seconds redis sum": 1.5,
	}, samples(t, g, "ratelimitstore"))
	requireSample(t, 1, samples(t, g, "registry_entries"), "registry_entries ratelimitstore")
	families, err := g.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() != "resilience_ratelimitstore_round_trip_seconds" {
			continue
		}
		buckets := f.GetMetric()[0].GetHistogram().GetBucket()
		require.Len(t, buckets, 3)
		for i, bound := range []float64{.0001, .00025, .001} {
			require.InDelta(t, bound, buckets[i].GetUpperBound(), 1e-12)
			require.Equal(t, []uint64{10, 10, 15}[i], buckets[i].GetCumulativeCount())
		}
	}
	s.stats.Unavailable, s.stats.Instances = false, 3
	got := samples(t, g, "ratelimitstore")
	requireSample(t, 0, got, "ratelimitstore_unavailable redis")
	requireSample(t, 3, got, "ratelimitstore_instances redis")
	problems, err := testutil.GatherAndLint(g)
	require.NoError(t, err)
	require.Empty(t, problems)
	remove()
	require.Empty(t, samples(t, g, "ratelimitstore"))
}
