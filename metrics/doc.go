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
// a call nothing more. Only the histogram of waits and the transitions of breakers
// are kept by the [Collector], which observes what is in the registry, also what is
// added later. Durations of the calls through breakers are exported on request:
// [Config.Durations] tells what they cost, and so are the permits of limiters
// ([Config.Permits]). What leaves the registry leaves the
// exported series. Two collectors in one Prometheus registry want a Namespace each.
//
// The names begin with resilience_retry_, resilience_ratelimiter_,
// resilience_ratelimitstore_, resilience_circuitbreaker_, resilience_timelimiter_ and
// resilience_cooldown_; the label name is the Name in the Config. There are about 15 series for a retry without its histogram, 10 for
// a limiter, 25 for a breaker, 30 for a whole group of them, 6 for a timeout, 9 for a cooldown; a
// histogram has 19 for each of its label values. A store that limiters share, as a
// redisstore.Store with a Registry, has 24, of which 15 are the histogram of its round trips;
// [ratelimit.StoreStats] tells what they mean.
//
// Beside those of the mechanisms there are resilience_http_rejections_total, which
// [Collector.Rejected] counts; resilience_registry_entries, _reloads_total and
// _last_reload_success_timestamp_seconds, of [core.SetConfig]; resilience_hook_panics_total;
// and resilience_events_dropped_total, of each event log in the registry, or whatever
// else there has a method Dropped() uint64. The tags of an instance are the labels of
// resilience_registry_entry_info, to be joined on name:
//
//	resilience_circuitbreaker_state * on(name) group_left(team) resilience_registry_entry_info{kind="breaker"}
//
// Every label but a tag has few values: the name of an instance, or one word out of a short
// list. Keys, paths and error texts are never labels, so the number of series
// does not grow with the clients.
//
// It is the only package of Gresil that imports the Prometheus client.
package metrics
