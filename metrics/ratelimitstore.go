package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gresil/gresil/core/ratelimit"
)

// A limiterStore is a store of limiters that several processes share.
type limiterStore interface{ Stats() ratelimit.StoreStats }

type storeMetrics struct {
	operations, local, sent, trip, unavailable, instances *prometheus.Desc
}

func storeKinds(c *Collector, _ Config) []kind {
	m := &storeMetrics{}
	m.operations = c.desc("ratelimitstore_operations_total", "Operations on a shared store by result; canceled ones are not counted.", "name", "result")
	m.local = c.desc("ratelimitstore_local_operations_total", "Operations that the process decided with its share of the limit, because the server did not.", "name")
	m.sent = c.desc("ratelimitstore_sent_operations_total", "Operations sent to the server; divided by the count of round trips, the mean size of a batch.", "name")
	m.trip = c.desc("ratelimitstore_round_trip_seconds", "Duration of requests to the server, including failed ones.", "name")
	m.unavailable = c.desc("ratelimitstore_unavailable", "1 while the server, or one of several, is unavailable: after failures in a row, until a request succeeds.", "name")
	m.instances = c.desc("ratelimitstore_instances", "Processes that share the store; no sample where the store does not count them.", "name")
	k := kindOf("ratelimitstore", m.collect)
	k.hooks = false
	return []kind{k}
}

func (m *storeMetrics) collect(ch chan<- prometheus.Metric, name string, store limiterStore) (panics uint64) {
	s := store.Stats()
	counter(ch, m.operations, s.Decided, name, "decided")
	counter(ch, m.operations, s.Denied, name, "denied")
	counter(ch, m.operations, s.Timeouts, name, "timeout")
	counter(ch, m.operations, s.Failed, name, "error")
	counter(ch, m.operations, s.Unsent, name, "unsent")
	counter(ch, m.local, s.Local, name)
	counter(ch, m.sent, s.Sent, name)
	unavailable := 0.0
	if s.Unavailable {
		unavailable = 1
	}
	gauge(ch, m.unavailable, unavailable, name)
	if s.Instances > 0 {
		gauge(ch, m.instances, float64(s.Instances), name)
	}
	buckets := map[float64]uint64{}
	for bound, n := range s.RoundTripsWithin {
		buckets[bound.Seconds()] = n
	}
	ch <- prometheus.MustNewConstHistogram(m.trip, s.RoundTrips, s.RoundTripTime.Seconds(), buckets, name)
	return 0
}
