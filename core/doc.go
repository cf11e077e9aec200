// Package core is the vocabulary that every mechanism of Gresil shares: the
// three-valued [Outcome] of a call, the errors for a bad configuration
// ([ConfigError]) and for a call that was not made ([ErrRejected]), the
// [Registry] of named instances, the [Configs] that instances share and follow, and
// the [Pipeline] that puts mechanisms around any function.
//
// The mechanisms themselves live one package each below this one: retry,
// breaker, ratelimit, timeout, with backoff for delays and event for a bounded
// log. They are passive: they decide, and start no goroutine, do no I/O and log
// nothing. None of them knows net/http; the packages server, client and plugins
// bind them to it.
//
// Everything exported here may be used from several goroutines at once unless
// its own documentation says otherwise.
package core
