// Package logs writes what the mechanisms in a [core.Registry] do to a
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
// What is logged, by level:
//
//   - Info: changes of a breaker's state, resets, instances that are replaced or
//     get another config.
//   - Warn: a store that fails, a config that is refused, and what only counters
//     tell of: hooks that panic, keys dropped for want of room, calls that shared
//     the breaker of a full group, events that a log dropped. A failing store and
//     each counter are logged at most once in [Config.WarnEvery] for each instance,
//     with how many there were since; hooks that panic once for each instance.
//   - Debug: instances that come and go; and every call that is retried, refused, made
//     to wait or cut, if [Config.Calls] is set.
//
// Every record has the attributes kind and name, which are those of the instance in
// the registry, and the group tags with its tags, where it has some. Messages are constant, so that they can be counted.
// What comes later to the registry is logged too, and what leaves is let go.
//
// The logger is called by the goroutine of the call or change, with its context and
// with no lock held; a handler that blocks holds up that call. One that panics
// counts as a hook that panics and harms no call; a warning that it did not take is
// given to it again.
//
// Counters are looked at when something is logged of the instance, by
// [Adapter.Run], and by [Adapter.Close]. The package starts no goroutine.
//
// Do not use it to count: that is what package metrics is for.
package logs
