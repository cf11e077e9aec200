// Package logs writes the events of the mechanisms in a core.Registry to a slog.Logger.
//
//	registry := &core.Registry{} // set in the Config of each mechanism
//	go logs.Run(ctx, registry, slog.Default(), logs.Config{})
//
// Changes of a breaker's state, pauses that a server asked for, the recovery of a store, and "config replaced" are logged at Info. Failures
// of a store, losses, and "config refused, the old one is kept" are logged at Warn, at most once a minute for each text and instance, with
// the count since the last record. Messages are constant. Each record has the attributes kind and name; that of a breaker by host also
// host.
package logs
