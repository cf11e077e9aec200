// Package logs writes the events of the mechanisms in a [core.Registry] to a
// [slog.Logger].
//
//	registry := &core.Registry{} // named in the Config of each plugin
//	adapter, err := logs.New(registry, slog.New(handler), logs.Config{})
//	if err != nil {
//		return err
//	}
//	defer adapter.Close()
//	go adapter.Run(ctx) // for warnings of counters; see below
//
// The levels are:
//
//   - Info: changes of a breaker's state, resets, holds of a cooldown and their end, also
//     those of a dispatcher, and calls that it gave up, a limit that a bulkhead has
//     lowered, a store or an engine that has recovered, rates that a pacer has read, or
//     could not read, queues of jobs that are held, instances that are replaced or get
//     another config.
//   - Warn: a store or an engine that fails, a call that has lost its permits, jobs and
//     records that have failed, a batch that is sent again, a config that is refused, and
//     the growth of these counters: hooks that panicked, keys or cooldowns that were
//     evicted, calls that shared the breaker of a full group, events that a log dropped. A
//     failing store and each counter are logged at most once in [Config.WarnEvery] for each
//     instance, with the count since the last record; hooks that panic once for each
//     instance.
//   - Debug: instances that are added and removed. With [Config.Calls] also each call
//     that is retried, granted, refused, delayed, recorded or cut off, or that waits for,
//     gets or returns a connection of a dispatcher, or waits for a pacer, and each permit
//     that was stale.
//
// An outage of the store of a limiter, bulkhead, pacer or batcher, or of the engine of a
// jobs.Runner, begins with a warning. It ends with one record at Info, when the store works
// again: lasted is its duration, and count the number of operations that the store did not
// execute; for a bulkhead, the number of outages. Outages that begin less than WarnEvery
// after a warning are logged together, in one record, when WarnEvery is over. The store of a
// cooldown or dispatcher has a record each time that it is lost, and each time that it is
// back.
//
// Every record has the attributes kind and name. They are those of the instance in the
// registry, or "registry" and "default" for the registry itself. Tags are in the group
// tags. Messages are constant, so a program can count them. Instances that join the
// registry later are logged too.
//
// The logger is called by the goroutine of the call or change, with its context and with
// no lock held; a handler that blocks delays that call. If a handler panics, the panic
// counts as one of a hook and does not change the call; a warning that was lost is
// repeated.
//
// Counters are read together with the next record of the instance, by [Adapter.Run], and
// by [Adapter.Close]. The package starts no goroutine.
//
// For counting, use package metrics.
package logs
