package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gresil/gresil/core/ratelimit"
)

// A limiterStore is a store of limiters that several processes share.
type limiterStore interface{ Stats() ratelimit.StoreStats }

func storeKinds(*Collector, Config) []kind {
	k := kindOf("ratelimitstore", collectStore)
	k.hooks = false
	return []kind{k}
}

func collectStore(w *writer, store limiterStore) (panics uint64) {
	s := store.Stats()
	w.counters("ratelimitstore_operations_total", "Operations on a shared store by result; canceled ones are not counted.", "result", map[string]uint64{
		"decided": s.Decided, "denied": s.Denied, "timeout": s.Timeouts, "error": s.Failed, "unsent": s.Unsent,
	})
	w.counter("ratelimitstore_local_operations_total", "Operations that the process decided with its share of the limit, because the server did not.", s.Local)
	w.counter("ratelimitstore_sent_operations_total", "Operations sent to the server; divided by the count of round trips, the mean size of a batch.", s.Sent)
	w.gauge("ratelimitstore_unavailable", "1 while the server, or one of several, is unavailable: after failures in a row, until a request succeeds.", bit(s.Unavailable))
	if s.Instances > 0 {
		w.gauge("ratelimitstore_instances", "Processes that share the store; no sample where the store does not count them.", float64(s.Instances))
	}
	buckets := map[float64]uint64{}
	for bound, n := range s.RoundTripsWithin {
		buckets[bound.Seconds()] = n
	}
	trip := w.desc("ratelimitstore_round_trip_seconds", "Duration of requests to the server, including failed ones.")
	w.ch <- prometheus.MustNewConstHistogram(trip, s.RoundTrips, s.RoundTripTime.Seconds(), buckets, w.name)
	return 0
}
