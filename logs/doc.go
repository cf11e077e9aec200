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
//     lowered, a store that has recovered, instances that are replaced or get another
//     config.
//   - Warn: a store that fails, a config that is refused, and the growth of these
//     counters: hooks that panicked, keys or cooldowns that were evicted, calls that
//     shared the breaker of a full group, events that a log dropped. A failing store and
//     each counter are logged at most once in [Config.WarnEvery] for each instance, with
//     the count since the last record; hooks that panic once for each instance.
//   - Debug: instances that are added and removed. With [Config.Calls] also each call
//     that is retried, granted, refused, delayed, recorded or cut off, or that waits for,
//     gets or returns a connection of a dispatcher.
//
// An outage of a store begins with a warning. It ends with one record at Info, when the
// store has granted permits again: lasted is its duration, and count the number of
// operations that the store failed to decide. Outages that begin less than WarnEvery after
// a warning are logged together, in one record, when WarnEvery is over.
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
