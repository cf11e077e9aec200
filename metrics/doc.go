// Package metrics exports the reports of the mechanisms in a core.Registry to Prometheus.
//
//	registry := &core.Registry{} // set in the Config of each mechanism
//	collector, err := metrics.New(registry, metrics.Config{})
//	if err != nil {
//		return err
//	}
//	prometheus.MustRegister(collector)
//
// Counters are read during a scrape, at no cost for a call. Mechanisms that are registered later are exported too. A name consists of
// resilience_, the kind and what is counted, as in resilience_breaker_calls_total. Each metric of an instance has the label name. Labels
// have few values: keys, paths and errors are never labels. resilience_registry_reloads_total counts the uses of SetConfig by kind and
// result.
package metrics
