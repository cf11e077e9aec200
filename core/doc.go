// Package core has what all mechanisms share: the [Outcome] of a call, the errors for a bad configuration and for a
// rejection, a [Pipeline] of mechanisms around any function, and a [Registry] of named mechanisms:
//
//	pipeline, err := core.NewPipeline(policy, hosts.For("db"), limit)
//	if err != nil {
//		return err
//	}
//	rows, err := core.Do(ctx, pipeline, func(ctx context.Context) ([]Row, error) {
//		return query(ctx)
//	})
//
// The mechanisms are the packages below: retry, breaker, timeout, ratelimit, bulkhead. They start no goroutine, do no I/O and
// log nothing. None of them imports net/http; server, client and plugins bind them to it.
//
// Everything here can be used from several goroutines at once.
package core
