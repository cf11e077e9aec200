package main

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// arrive adds calls at times, in ms, each with a key of its own.
func arrive(a *arrivals, at ...int) {
	for i, ms := range at {
		a.add(a.zero.Add(time.Duration(ms)*time.Millisecond), strconv.Itoa(i), 0)
	}
}

// fixedArrivals begin at a whole second of the clock.
func fixedArrivals() *arrivals {
	return &arrivals{zero: time.Unix(1_000_000, 0), seen: map[string]struct{}{}}
}

func TestAJudgeOfNoCalls(t *testing.T) {
	t.Parallel()
	require.Equal(t, verdict{Stall: 1.5}, newArrivals().judge(1500*time.Microsecond))
}

func TestASecondIsHalfOpen(t *testing.T) {
	t.Parallel()
	a := fixedArrivals()
	arrive(a, 0, 1000, 2000)
	require.Equal(t, verdict{Arrivals: 3, Unique: 3, MostSliding: 1, MostFixed: 1, Seconds: 2}, a.judge(0))
	a = fixedArrivals()
	arrive(a, 0, 999, 1000, 1998)
	v := a.judge(0)
	require.Equal(t, 3, v.MostSliding, "999, 1000 and 1998")
	require.Equal(t, 2, v.MostFixed, "no phase begins at 999")
	require.InDelta(t, 1.998, v.Seconds, 1e-9)
}

// TestFixedSecondsHavePhases: no second that begins at a multiple of 50 ms has both bursts, but one
// between does.
func TestFixedSecondsHavePhases(t *testing.T) {
	t.Parallel()
	for first, fixed := range map[int]int{920: 10, 950: 20, 970: 10} {
		a := fixedArrivals()
		for i := range 10 {
			arrive(a, first+i%2, first+990+i%2)
		}
		v := a.judge(0)
		require.Equal(t, 20, v.MostSliding, first)
		require.Equal(t, fixed, v.MostFixed, first)
	}
}

func TestCallsCanArriveInAnyOrder(t *testing.T) {
	t.Parallel()
	a := fixedArrivals()
	arrive(a, 2500, 100, 1099, 200, 1900)
	require.Equal(t, verdict{Arrivals: 5, Unique: 5, MostSliding: 3, MostFixed: 3, Seconds: 2.4}, a.judge(0))
}

func TestDuplicatesAreCalls(t *testing.T) {
	t.Parallel()
	a := fixedArrivals()
	arrive(a, 0, 1)
	arrive(a, 2)
	require.Equal(t, verdict{Arrivals: 3, Unique: 2, Duplicates: 1, MostSliding: 3, MostFixed: 3, Seconds: 0.002}, a.judge(0))
}

// TestAStallIsTheDifferenceOnTheWay: the clocks of the worker and the vendor need not agree.
func TestAStallIsTheDifferenceOnTheWay(t *testing.T) {
	t.Parallel()
	for _, clock := range []time.Duration{0, time.Hour, -time.Hour} {
		a := fixedArrivals()
		for i, way := range []int{3, 2, 90, 4} {
			sent := a.zero.Add(time.Duration(i) * time.Second)
			a.add(sent.Add(time.Duration(way)*time.Millisecond), strconv.Itoa(i), sent.Add(clock).UnixMicro())
		}
		require.InDelta(t, 88, a.judge(10*time.Millisecond).Stall, 0)
		require.InDelta(t, 100, a.judge(100*time.Millisecond).Stall, 0)
	}
}
