// Package metrics exports what the mechanisms in a [core.Registry] count, to
// Prometheus.
//
//	registry := &core.Registry{} // named in the Config of each plugin
//	collector, err := metrics.New(registry, metrics.Config{})
//	if err != nil {
//		return err
//	}
//	prometheus.MustRegister(collector)
//
// Counters are read from the mechanisms when they are scraped, so that they cost
// a call nothing more. Only the histograms, of waits and durations, and the
// transitions of breakers are kept by the [Collector], which observes what is
// in the registry, also what is added later. What leaves the registry leaves the
// exported series.
//
// Every label has few values: the name of an instance, or one word out of a short
// list. Keys, paths and error texts are never labels, so the number of series
// does not grow with the clients.
//
// It is the only package of Gresil that imports the Prometheus client.
package metrics
