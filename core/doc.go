// Package core is the vocabulary that every mechanism of Gresil shares: the
// three-valued [Outcome] of a call, and the errors for a bad configuration
// ([ConfigError]) and for a call that was not made ([ErrRejected]).
//
// A [Pipeline] puts mechanisms around any function, the first one outermost.
// [Pipeline.Check] reports an order that is probably a mistake:
//
//	pipeline, err := core.NewPipeline(policy, limiter, breaker, timeout)
//	if err != nil {
//		return err
//	}
//	for _, problem := range pipeline.Check() {
//		slog.Warn(problem)
//	}
//	rows, err := core.Do(ctx, pipeline, func(ctx context.Context) ([]Row, error) {
//		return query(ctx)
//	})
//
// A [Registry] holds named mechanisms, for metrics, logs and pages, and for callers that know a name:
//
//	registry := &core.Registry{} // in the Config of each
//	b, ok := core.Lookup[*breaker.Breaker](registry, "db")
//
// The mechanisms themselves live one package each below this one: retry,
// breaker, ratelimit, timeout, cooldown, bulkhead, with backoff for delays. They are passive: they decide, and start no goroutine, do no I/O and log
// nothing. None of them imports net/http; the packages server, client and plugins
// bind them to it.
//
// Everything exported here may be used from several goroutines at once unless
// its own documentation says otherwise.
package core
