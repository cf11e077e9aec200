// Package jobstest tests the engines of outbound/jobs: each test of [All] takes an engine, which may
// be shared and have other queues.
//
//	for name, test := range jobstest.All() {
//		t.Run(name, func(t *testing.T) {
//			t.Parallel()
//			test(t, engine)
//		})
//	}
//
// The tests use time: an engine in memory can run them in a bubble of testing/synctest.
package jobstest

import (
	"iter"
	"testing"

	"github.com/gresil/gresil/outbound/jobs"
)

// All returns the tests by name, in a fixed order.
func All() iter.Seq2[string, func(t *testing.T, engine jobs.Engine)] {
	tests := []struct {
		name string
		test func(*suite)
	}{
		{"EachJobIsHandledOnceAndUnchanged", (*suite).handledOnce},
		{"NoJobIsEarly", (*suite).neverEarly},
		{"ALimitedJobUsesNoAttempt", (*suite).limited},
		{"AFailedAttemptCounts", (*suite).attempts},
		{"AFailedJobIsKeptAndRunsByHand", (*suite).failed},
		{"AFailedJobIsReplaced", (*suite).replaced},
		{"AnIDIsInUseWhileItsJobIsThere", (*suite).exists},
		{"AnIDIsFreeAfterItsRetain", (*suite).retained},
		{"APausedQueueStops", (*suite).pause},
		{"AHoldEndsByItself", (*suite).hold},
		{"AHoldNeitherShortensNorEndsAnother", (*suite).merge},
		{"RunEndsAfterItsHandlers", (*suite).drain},
		{"JobsAreListedAndDeleted", (*suite).listed},
		{"NoMoreHandlersThanTheConcurrency", (*suite).concurrency},
		{"AHeldQueueDelaysNoOther", (*suite).bulkhead},
		{"AJobThatWaitsKeepsNoPlace", (*suite).place},
		{"AnyTextOfAnErrorIsKept", (*suite).texts},
		{"TwoRunsShareAQueue", (*suite).share},
	}
	return func(yield func(string, func(*testing.T, jobs.Engine)) bool) {
		for _, test := range tests {
			run := func(t *testing.T, engine jobs.Engine) {
				t.Helper()
				test.test(&suite{T: t, engine: engine, queue: test.name})
			}
			if !yield(test.name, run) {
				return
			}
		}
	}
}
