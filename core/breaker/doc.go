// Package breaker stops calling what keeps failing.
//
// A [Breaker] counts how calls end. When too many of the last ones failed, or took
// too long (Config.SlowCall), or one of them is enough (Config.Trip), it opens: calls
// are rejected at once, without being made. After a while it lets a few trial calls
// through, and closes again if they go well.
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
// Where a call does not fit into one function there are two steps: [Breaker.Acquire]
// before it, and [Permit.Done] after it. A [Group] has a breaker for each key, such
// as a host.
//
// Use it around what is remote and shared, so that callers do not queue up in
// front of something that is down, and it is left alone to recover. Do not use it
// around what fails because of its caller, such as bad input, without a Classify
// that says so; nor to limit a rate or how many calls run at once. For HTTP there
// is plugins/breaker.
//
// # States
//
// [Closed] lets all calls pass and counts them; [Open] rejects all until its time
// is over; [HalfOpen] admits Config.Trials calls and is decided by them. By hand
// only: [ForcedOpen] rejects all, [Disabled] lets all pass uncounted, [MetricsOnly]
// lets all pass and counts. Nothing happens in the background: what time brings
// about is seen by whoever uses or looks at the breaker next.
//
// # Guarantees
//
//   - A Breaker may be used by any number of goroutines. It starts none.
//   - While half-open never more than Trials calls are admitted and not given back:
//     each reserves a slot when it is admitted. A call that ends as
//     [core.Ignored], panics or ends its goroutine in [Do] gives its slot back, and
//     one that takes longer than TrialTimeout loses it.
//   - A result counts only in the state in which its call was admitted, and that of
//     a trial only within its TrialTimeout.
//   - Hooks are called with no lock held, state changes in the order in which they
//     happened. A hook may use the breaker. One that panics does no harm.
//   - Neither a call through a closed breaker nor a rejection allocates. While
//     closed, no clock is read, unless there is a WindowTime, a SlowCall or a
//     Recorded hook.
//   - The memory of a breaker is fixed by its Config. SetConfig replaces that while
//     the breaker is in use, and keeps its state.
//
// When it fails: a Permit that never gets its Done is a call that is not counted.
// A threshold that is too low, or a Classify that takes the caller's own errors
// for failures, cuts off something healthy; the hooks and [Breaker.Snapshot] show
// on what grounds.
package breaker
