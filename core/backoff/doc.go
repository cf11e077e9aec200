// Package backoff computes the wait before a retry, or before the trial of an open
// circuit.
//
// A [Strategy] returns the delay for the number of the retry, from 1. The strategies are plain structs: [Constant], [Linear], [Exponential],
// [Decorrelated], [None], and [Func] for one of your own. They hold no state, so
// one value serves any number of calls at once.
//
//	s := backoff.Exponential{Initial: 500 * time.Millisecond, Max: time.Minute, Jitter: 0.5}
//	if err := backoff.Validate(s); err != nil {
//		return err
//	}
//	time.Sleep(s.Delay(1, 0))
//
// Nothing here waits. For one fixed pause, use a time.Duration.
//
// Delays are exact to the nanosecond, never negative, and saturate where the
// arithmetic would overflow. Jitter comes after the cap: callers that have all
// reached the cap are still spread, and none waits longer than the cap. [Seeded]
// makes the jitter of a test repeatable.
//
// A strategy has a text, as "exponential 500ms x2 max 1m jitter full": see [Parse].
package backoff
