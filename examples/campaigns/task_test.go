package main

import (
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/examples/internal/demo"
)

func newTestTask(c config) *task {
	t := newTask(c, &demo.Screen{Writer: io.Discard})
	t.workers.Start = time.Now()
	return t
}

// Each worker has its part of each campaign. Those of a worker that has ended go to the one that replaces it, and those that
// were sent are noted; none that is done.
func TestCallsOfDeadWorker(t *testing.T) {
	t.Parallel()
	c := newTestTask(config{Campaigns: 2, Calls: 5, Workers: 2, CPS: 50})
	c.Run = ""
	a, b := &demo.Process{}, &demo.Process{Place: 1}
	require.Equal(t, []int{0, 1, 4, 5, 8, 9}, c.Input(a))
	require.Equal(t, []int{2, 3, 6, 7}, c.Input(b))
	for _, n := range []int{1, 4, 5} {
		c.Line(a, "run", n, "1")
		c.Line(a, "sent", n, "")
	}
	c.Line(b, "sent", 2, "")
	c.Line(a, "done", 1, "")
	c.Line(a, "run", 5, "2") // again: it was refused
	require.True(t, c.Ended(a))
	require.Equal(t, []string{"-1/3"}, c.inFlight)
	require.Equal(t, []int{0, 4, 5, 8, 9}, c.Input(a))
	c.Line(a, "sent", 4, "")
	require.True(t, c.Ended(a))
	require.Equal(t, []string{"-1/3", "-1/3"}, c.inFlight, "once for each death")
	for _, n := range []int{0, 2, 3, 4, 5, 6, 7, 8} {
		c.Line(b, "done", n, "")
	}
	c.Line(b, "done", 4, "") // twice
	c.Line(b, "failed", 4, "it was done")
	c.Line(b, "failed", 9, "why")
	done, total, text := c.Progress()
	require.Equal(t, [2]int{10, 10}, [2]int{done, total})
	require.Equal(t, "9 of 10 served, 1 failed", text)
	require.Equal(t, [3]int{4, 1, 5}, [3]int{c.runs, c.retried, c.attempts})
	require.Equal(t, "why", c.workers.Error)
}

func TestHalves(t *testing.T) {
	t.Parallel()
	c := newTestTask(config{Campaigns: 2, Calls: 4, Workers: 1, CPS: 10})
	worst, best := c.halves()
	require.Zero(t, worst+best)
	for _, n := range []int{0, 2, 1, 4, 3, 5, 7, 6} { // the even ones are those of one campaign
		c.end(n, true, "")
	}
	worst, best = c.halves()
	require.Equal(t, [2]float64{0.25, 0.75}, [2]float64{worst, best})
}
