// Package metrics exports the counters of the mechanisms in a [core.Registry] to
// Prometheus.
//
//	registry := &core.Registry{} // named in the Config of each plugin
//	collector, err := metrics.New(registry, metrics.Config{})
//	if err != nil {
//		return err
//	}
//	prometheus.MustRegister(collector)
//
// Counters are read from the mechanisms during a scrape, at no cost for a call. The
// [Collector] itself keeps the histograms of waits and backoffs and the transitions of
// breakers, through hooks that run at these events only. [Config.Durations] adds a
// histogram of the calls through breakers, and [Config.Permits] the permits of limiters;
// both cost each call something.
//
// Instances that join the registry later are exported too. The series of an instance
// that leaves are removed. Two collectors in one Prometheus registry need different
// namespaces.
//
// # Names
//
// The names begin with resilience_retry_, resilience_ratelimit_,
// resilience_ratelimitstore_, resilience_breaker_, resilience_timeout_,
// resilience_cooldown_, resilience_bulkhead_, resilience_dispatch_, resilience_pace_ and
// resilience_jobs_. The label name is the Name in the Config. There are 15 series for a retry, 11 for a limiter, 50 for a
// breaker and 55 for a whole group of breakers, of which 30 are transitions, 7 for a
// timeout, 11 for a cooldown, 12 for a bulkhead, 21 for a dispatcher, 12 for a pacer, and 10 for a
// runner of jobs with 7 more for each of its queues. A histogram adds
// 19 series for each of its label values. A store that limiters share, such as a
// redisstore.Store with a Registry, has 24, of which 15 are the histogram of its round
// trips; see [ratelimit.StoreStats] for their meaning.
//
// The results of resilience_cooldown_calls_total exclude each other. A call that waited
// for a held key is counted there once. If it then takes longer than ProbeTimeout, it is
// also counted in resilience_cooldown_overdue_probes_total.
//
// resilience_bulkhead_in_flight divided by resilience_bulkhead_limit is the saturation of a
// bulkhead, over all its keys. A single key that is full hardly shows in it if there are many:
// look at the rejected calls.
//
// The series of a dispatcher of outbound/dispatch are its [core.Reporter] figures.
// resilience_dispatch_limit is lowered when the vendor refuses an attempt because of a
// limit, and grows again; resilience_dispatch_cooldown_until_timestamp_seconds is the end
// of the pause.
//
// The series of a pacer of outbound/pace are such figures too. If
// resilience_pace_unused_permits_total with the reason stale grows, raise its Slack.
//
// The series of a runner of outbound/jobs are such figures too. Those with the label queue are
// the same in all processes; add up the others. resilience_jobs_stuck above 0 needs a repair, and
// resilience_jobs_kept_failed a person.
//
// The 19 series of a batcher of outbound/batch begin with resilience_batch_. If
// resilience_batch_records grows, the limit of calls is too low for the records that are added.
//
// resilience_http_rejections_total is counted by [Collector.ServerRejected].
// resilience_registry_entries, _reloads_total and _last_reload_success_timestamp_seconds
// describe the registry and [core.SetConfig]. resilience_hook_panics_total has a series
// for each instance, and one for the registry, which also counts the instances that panicked while
// they were read, and resilience_events_dropped_total one for each event log in the
// registry, or other instance with a method Dropped() uint64.
//
// Every counter starts at 0, before its first event. The exceptions are rejections with a
// status that no plugin uses by default.
//
// # Tags
//
// The tags of an instance are the labels of resilience_registry_entry_info. Its label
// kind is breaker for resilience_breaker_, ratelimit for resilience_ratelimit_,
// timeout for resilience_timeout_, and the same word for the others; the series of the cooldown of a
// client limiter belong to an instance of kind ratelimit. Join it on name,
// and on the labels that Prometheus adds for each target, since several instances of a
// service export the same names:
//
//	resilience_breaker_state
//	  * on (job, instance, name) group_left (team)
//	resilience_registry_entry_info{kind="breaker"}
//
// Each series on the left matches at most one on the right; an instance without tags
// matches none, and is not in the result.
//
// # Limits
//
// Every label but a tag has few values: the name of an instance, a status, or one word of
// a short list. Keys, paths and error texts are never labels, so the number of series does
// not grow with the clients.
//
// No other package of Gresil imports the Prometheus client.
package metrics
