package batchtest

import (
	"strings"
	"testing"

	"github.com/gresil/gresil/outbound/batch"
)

// Run runs the conformance tests. open returns a store that no other test uses, or one that several
// tests can use at a time: each test has a method of its own.
func Run(t *testing.T, open func(t *testing.T) batch.Store) {
	t.Helper()
	for name, test := range map[string]func(*kit){
		"RecordsAreLeasedInTheirOrder":             order,
		"ABatchHasMaxBytesAtMost":                  maxBytes,
		"AGroupIsDueByAge":                         dueByAge,
		"AFlushCoversTheRecordsThatAreThere":       flushMark,
		"AFlushOfAllGroups":                        flushAll,
		"AGroupIsDueBySize":                        dueBySize,
		"DueGroupsTakeTurns":                       turns,
		"AKeyIsFreeAfterTheLease":                  uniqueUntilFlushed,
		"AKeyIsHeldUntilTheRecordIsDone":           uniqueUntilDone,
		"ManyAddOneKeyAtATime":                     uniqueConcurrent,
		"ARepeatedLeaseReturnsItsBatch":            repeatedLease,
		"ARetryKeepsItsBatch":                      retrySame,
		"ABatchIsReplacedByItsParts":               parts,
		"AnExpiredLeaseIsTakenAgain":               expiry,
		"AnExpiredLeaseCanBeSettledUntilItIsTaken": lateSettle,
		"ALeaseThatExpiresInACallIsALoss":          losses,
		"AnExtendedLeaseDoesNotExpire":             extend,
		"ASettlementIsExecutedOnce":                settleTwice,
		"FailedRecordsAreKept":                     failed,
		"APausedGroupIsNotLeased":                  paused,
		"ADeletedGroupLeavesNothing":               deleted,
		"TooManyRecordsAndGroupsAreRejected":       full,
		"EveryCallOfARecordGetsItsReply":           replies,
		"AReplyWakesReceive":                       receiveWaits,
		"GroupsAreDescribed":                       described,
		"AnyStringIsAnOption":                      strange,
		"MethodsAreApart":                          methods,
		"AnyPayloadComesBack":                      payloads,
		"ABatchOfManyRecords":                      large,
		"EveryRecordIsLeasedOnceByMany":            concurrent,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(newKit(t, open))
		})
	}
}

// strangeNames are names that a careless key would mix up.
func strangeNames() []string {
	return []string{
		"", " ", ":", "a", "a:b", "a:b:c", "b:c", "a:", ":a", "1", "1:a", "{a}", "{", "}", "*", "a\x00b", "a\nb", "\xff\xfe",
		"Grüße", "日本語", "🙂", `"`, `\`, "a,b", "[1]", strings.Repeat("x", 1024), strings.Repeat("x", 1023) + "y",
	}
}
