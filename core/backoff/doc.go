// Package backoff computes delays that grow: the waits between retries, and the times for which a breaker stays open.
//
//	retry.Config{Backoff: backoff.Exponential{Delay: 100 * time.Millisecond, Max: 5 * time.Second}}
//
// All strategies are plain values without state, and safe for concurrent use. If an error or a response asks for a longer wait, the random
// part of the delay is added to it.
package backoff
