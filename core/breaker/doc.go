// Package breaker stops calls to something that keeps failing.
//
// A [Breaker] counts how calls end. When too many of the last calls failed
// (Config.FailureRate or Failures) or took too long (Config.SlowCall), or after a single
// one of a certain kind (Config.Trip), it opens: calls are rejected at once. After a while
// it admits a few trial calls, and closes again if they succeed.
//
//	b, err := breaker.New(breaker.Config{Name: "vendor"})
//	if err != nil {
//		return err
//	}
//	user, err := breaker.Do(ctx, b, func(ctx context.Context) (User, error) {
//		return load(ctx, id)
//	})
//	if errors.Is(err, breaker.ErrOpen) {
//		return cached(id)
//	}
//
// A call that does not fit into one function has two steps: [Breaker.Acquire] before it,
// and [Permit.Done] after it. A [Group] has a breaker for each key, such as a host.
//
// Use it around remote and shared things, so that callers do not queue up in front of
// something that is down, and it gets time to recover. If calls fail because of their
// caller, as with bad input, use it only with a Classify that ignores those failures. It
// limits neither a rate nor the number of calls at once. For HTTP there is
// plugins/breaker.
//
// # States
//
// [Closed] admits and counts all calls. [Open] rejects all calls until its time is over.
// [HalfOpen] admits Config.Trials calls, and their results decide by Config.TrialRule.
// Three states are set by hand only: [ForcedOpen] rejects all calls, [Disabled] admits
// them uncounted, [MetricsOnly] admits and counts them. Nothing happens in the
// background: a change that is due is made by the next method that is called.
//
// # Guarantees
//
//   - A Breaker may be used by any number of goroutines. It starts none.
//   - While half-open at most Trials calls are admitted and not returned: each reserves a
//     slot at its admission. A call of [Do] that is [core.Ignored], panics or ends its
//     goroutine returns its slot, and a call that exceeds TrialTimeout loses it.
//   - A result counts only in the state in which its call was admitted, and the result of
//     a trial only within its TrialTimeout.
//   - OnStateChange is called with no lock held, and in order. It can use the breaker. If it panics, so does
//     the call that has changed the state. OpenDelay is called under the lock: it
//     must be fast and pure.
//   - Neither a call through a closed breaker nor a rejection allocates. While closed, no
//     clock is read, unless there is a WindowTime or a SlowCall.
//   - The memory of a breaker is fixed by its Config. SetConfig replaces the Config while
//     the breaker is in use, and keeps its state.
//
// When it fails: a Permit without its Done is a call that is not counted. A threshold
// that is too low, or a Classify that counts the caller's own errors, cuts off a healthy
// upstream; Config.OnStateChange and [Breaker.Snapshot] show why.
package breaker
