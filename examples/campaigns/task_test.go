package main

import (
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/examples/internal/demo"
)

func newTestTask(c config) *task {
	t := newTask(c, demo.NewScreen(io.Discard))
	t.crew.Start = time.Now()
	return t
}

// numbers returns lines as they are sent to a worker.
func numbers(from, to int) (lines string) {
	for n := from; n < to; n++ {
		lines += fmt.Sprintln(n)
	}
	return lines
}

func TestNumbersAreBounded(t *testing.T) {
	t.Parallel()
	c := newTestTask(config{Campaigns: 3, Calls: 1000, Workers: 1, CPS: 50})
	a, b := &demo.Member{}, &demo.Member{}
	require.Equal(t, numbers(0, 100), c.Feed(a))
	require.Empty(t, c.deal(a))
	require.Equal(t, numbers(100, 200), c.Feed(b))
	delete(c.hands[a], 7)
	require.Equal(t, "200\n", c.deal(a))
}

// Those of a worker that has ended go to others, and those that were sent are noted; none that is done.
func TestCallsOfDeadWorker(t *testing.T) {
	t.Parallel()
	c := newTestTask(config{Campaigns: 2, Calls: 3, Workers: 2, CPS: 50})
	c.Run = ""
	a, b := &demo.Member{}, &demo.Member{}
	require.Equal(t, numbers(0, 6), c.Feed(a))
	c.Hear(a, "run", 1, "1")
	c.Hear(a, "started", 3, "")
	c.Hear(a, "started", 5, "")
	delete(c.hands[a], 1)
	c.ended(1, true, "")
	require.True(t, c.Fold(a))
	require.Equal(t, []int{3, 5}, c.inFlight)
	require.Equal(t, "0\n2\n3\n4\n5\n", c.Feed(b))
	c.Hear(b, "started", 3, "")
	require.True(t, c.Fold(b))
	require.Equal(t, []string{"-2/2", "-2/3", "-2/2"}, c.keys(), "once for each death")
	for _, n := range []int{0, 2, 3, 4, 5, 3} {
		c.ended(n, true, "")
	}
	done, total, _ := c.Progress()
	require.Equal(t, [2]int{6, 6}, [2]int{done, total}, "3 was done twice")
}

// With the engine asynq, workers choose the calls, and run those of a worker that has ended again.
func TestWorkersOfAsynqChoose(t *testing.T) {
	t.Parallel()
	c := newTestTask(config{Campaigns: 2, Calls: 2, Workers: 2, CPS: 50, Engine: "asynq"})
	a, b := &demo.Member{}, &demo.Member{}
	require.Empty(t, c.Feed(a)+c.Feed(b))
	for _, n := range []int{0, 1} {
		c.Hear(a, "run", n, "1")
		c.Hear(a, "started", n, "")
	}
	require.True(t, c.Fold(a))
	require.Empty(t, c.returned)
	require.Equal(t, []int{0, 1}, c.inFlight)
	c.Hear(b, "run", 0, "2")
	c.Hear(b, "failed", 0, "why")
	require.Equal(t, [3]int{3, 1, 1}, [3]int{c.runs, c.retried, c.failed})
	require.Equal(t, "why", c.crew.First)
}

func TestHalfTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newTestTask(config{Campaigns: 2, Calls: 4, Workers: 1, CPS: 10})
		elapsed, worst, best := c.times()
		require.Zero(t, elapsed+worst+best)
		for n := range 8 { // of the campaigns in turn, at 1, 2, 3, 4, 5, 6, 7 and 10 seconds
			time.Sleep(time.Second)
			if n == 7 {
				time.Sleep(2 * time.Second)
			}
			c.ended(n, true, "")
		}
		elapsed, worst, best = c.times()
		require.Equal(t, [3]float64{10, 0.5, 0.75}, [3]float64{elapsed, worst, best})
	})
}
