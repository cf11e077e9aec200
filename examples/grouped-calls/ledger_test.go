package main

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// fixedLedger begins at a whole second of the clock.
func fixedLedger(limit int) *ledger {
	l := newLedger(limit, time.Second)
	l.zero = time.Unix(1_000_000, 0)
	return l
}

// arrive adds calls at times, in ms, and returns those that are within the limit.
func arrive(l *ledger, at ...int) (within []int) {
	for _, ms := range at {
		if l.arrive(l.zero.Add(time.Duration(ms)*time.Millisecond), 0) {
			within = append(within, ms)
		}
	}
	return within
}

func texts(records ...string) (all []json.RawMessage) {
	for _, r := range records {
		all = append(all, json.RawMessage(r))
	}
	return all
}

func TestAJudgeOfNoCalls(t *testing.T) {
	t.Parallel()
	require.Equal(t, verdict{Calls: map[string]int{}, Stall: 1.5}, fixedLedger(3).judge(1500*time.Microsecond))
}

func TestAMinuteIsHalfOpen(t *testing.T) {
	t.Parallel()
	l := fixedLedger(2)
	require.Equal(t, []int{0, 1, 1000, 1001}, arrive(l, 0, 1, 1000, 1001))
	v := l.judge(0)
	require.Zero(t, v.Over)
	require.Equal(t, 2, v.MostSliding)
}

// TestACallThatIsRefusedCounts: a client that repeats its calls at once is never served.
func TestACallThatIsRefusedCounts(t *testing.T) {
	t.Parallel()
	l := fixedLedger(2)
	require.Equal(t, []int{0, 300}, arrive(l, 0, 300, 999, 1100, 1300, 1900))
	require.Equal(t, []int{2400}, arrive(l, 2400), "1900 was refused, and is the only other one in its minute")
	v := l.judge(0)
	require.Equal(t, 7, v.Arrivals)
	require.Equal(t, 4, v.Over)
	require.Equal(t, 4, v.MostSliding, "999, 1100, 1300 and 1900")
	require.InDelta(t, 2.4, v.Seconds, 1e-9)
}

func TestCallsCanArriveInAnyOrder(t *testing.T) {
	t.Parallel()
	l := fixedLedger(3)
	require.Equal(t, []int{2500, 100, 1099, 200, 1900}, arrive(l, 2500, 100, 1099, 200, 1900))
	v := l.judge(0)
	require.Equal(t, 3, v.MostSliding)
	require.Equal(t, 3, v.MostFixed)
}

func TestRecordsAndDuplicatesAreCountedByOption(t *testing.T) {
	t.Parallel()
	l := fixedLedger(9)
	l.accept("a", texts(`{"n":1}`, `{"n":2}`))
	l.accept("b", texts(`{"n":3}`))
	l.accept("b", texts(`{"n":1}`, `{"n":3}`))
	l.refuse(true)
	l.refuse(false)
	require.Equal(t, verdict{Calls: map[string]int{"a": 1, "b": 2}, Records: 5, Unique: 3, Duplicates: 2, TooBig: 1, Bad: 1}, l.judge(0))
}

// TestTimeOnTheWayIsAStall: one call was on the way for 30 ms, the other for 70.
func TestTimeOnTheWayIsAStall(t *testing.T) {
	t.Parallel()
	l := fixedLedger(3)
	for i, way := range []int{30, 70} {
		sent := l.zero.Add(time.Duration(i) * time.Second)
		require.True(t, l.arrive(sent.Add(time.Duration(way)*time.Millisecond), sent.UnixMicro()))
	}
	require.InDelta(t, 40, l.judge(time.Millisecond).Stall, 0)
	require.InDelta(t, 50, l.judge(50*time.Millisecond).Stall, 0)
}
