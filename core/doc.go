// Package core has what all mechanisms share: the [Outcome] of a call, the errors for a bad configuration ([ConfigError]) and for a
// call that was not made ([ErrRejected]), pipelines, and a registry.
//
// A [Pipeline] puts mechanisms around any function, the first one outermost. [Pipeline.Check] reports an order that is probably a
// mistake:
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
// The mechanisms are the packages below: retry, breaker, timeout, ratelimit, bulkhead, cooldown. They start no goroutine, do no I/O
// and log nothing. None of them imports net/http; server, client and plugins bind them to it.
//
// Everything here can be used from several goroutines at once.
package core
