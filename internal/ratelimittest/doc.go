// Package ratelimittest is the conformance suite of a [ratelimit.Store]: what
// every store must do, in memory or remote, and two stores to test with: one in
// memory, and one that is slow or fails.
//
//	func TestMyStore(t *testing.T) {
//		ratelimittest.Run(t, ratelimittest.Harness{
//			Open: func(t *testing.T) ratelimit.Store { return open(t) },
//			Unit: 200 * time.Millisecond, // real time passes: keep it short
//			Slack: 20 * time.Millisecond,
//		})
//	}
//
// A store whose time is that of the process runs in virtual time, with Unit a
// second or more, no Slack, and Bubble set to synctest.Test.
package ratelimittest
