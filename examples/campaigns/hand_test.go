package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// give gives numbers to a hand, and reports a step of each.
func give(d *dealer, h *hand, word string) (numbers []int) {
	numbers = d.deal(h, time.Minute)
	for _, n := range numbers {
		d.note(h, time.Minute, word, n, "why")
	}
	return numbers
}

func TestNumbersAheadAreBounded(t *testing.T) {
	t.Parallel()
	d := newDealer(config{campaigns: 3, calls: 1000, workers: 1, cps: 50})
	require.Equal(t, 10, d.ahead)
	require.Equal(t, 100, d.sockets)
	h := d.newHand()
	require.Equal(t, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, d.deal(h, 0))
	for n := range 3 {
		require.Empty(t, d.deal(h, 0), "many wait")
		d.note(h, 0, []string{"started", "later", "done"}[n], n, "")
	}
	require.Equal(t, []int{10, 11, 12}, d.deal(h, 0))
	other := d.newHand()
	for len(other.calls) < 100 {
		require.Len(t, give(d, other, "started"), 10)
	}
	require.Empty(t, d.deal(other, 0), "100 are sent")
	d.note(other, 0, "done", 30, "")
	require.Len(t, d.deal(other, 0), 10, "one place is free")
}

// TestCallsOfAWorkerThatHasEnded: those that were not sent go to others, those in flight too, but
// once, and none that is done.
func TestCallsOfAWorkerThatHasEnded(t *testing.T) {
	t.Parallel()
	d := newDealer(config{campaigns: 2, calls: 3, workers: 2, cps: 50})
	h := d.newHand()
	require.Len(t, d.deal(h, 0), 6)
	d.note(h, 1, "started", 1, "")
	d.note(h, 2, "done", 1, "")
	d.note(h, 3, "started", 3, "")
	d.note(h, 4, "started", 5, "")
	d.note(h, 5, "later", 4, "")
	d.fold(h)
	require.Equal(t, []int{3, 5}, d.inFlight)
	require.Equal(t, hand{calls: map[int]stage{}}, *h)
	require.Equal(t, []int{0, 2, 3, 4, 5}, d.deal(h, 0))
	d.note(h, 6, "started", 3, "")
	d.note(h, 7, "done", 5, "")
	d.fold(h)
	require.Equal(t, []int{3, 5}, d.inFlight)
	require.Equal(t, 1, d.lost, "3 was in flight twice")
	require.Equal(t, []int{0, 2, 4}, give(d, h, "done"))
	require.Equal(t, 5, d.served)
	require.True(t, d.finished())
	d.note(h, 8, "done", 0, "")
	require.Equal(t, 5, d.served, "it is not in the hand")
}

func TestCallsThatFail(t *testing.T) {
	t.Parallel()
	d := newDealer(config{campaigns: 1, calls: 4, workers: 1, cps: 1})
	h := d.newHand()
	d.deal(h, 0)
	d.note(h, 0, "failed", 0, "first")
	d.note(h, 0, "failed", 1, "second")
	require.Equal(t, 2, d.row)
	d.note(h, 0, "done", 2, "")
	require.Zero(t, d.row)
	require.Equal(t, "first", d.first)
	require.False(t, d.finished())
	d.note(h, 0, "failed", 3, "third")
	require.True(t, d.finished())
}

func TestHalfTime(t *testing.T) {
	t.Parallel()
	d := newDealer(config{campaigns: 2, calls: 4, workers: 1, cps: 10})
	worst, best := d.halfTime()
	require.Zero(t, worst+best)
	h := d.newHand()
	for i, n := range d.deal(h, 0) { // 0 to 7, of the campaigns in turn, at 1, 2, 3, 4, 5, 6, 7 and 10
		at := time.Duration(i+1) * time.Second
		if n == 7 {
			at = 10 * time.Second
		}
		d.note(h, at, "done", n, "")
	}
	worst, best = d.halfTime()
	require.InDelta(t, 0.5, worst, 0)
	require.InDelta(t, 0.75, best, 0)
}

func TestNumbersOfTheArticleComeFasterThanTheLimit(t *testing.T) {
	t.Parallel()
	d := newDealer(config{campaigns: 1, calls: 100, workers: 1, cps: 10, algorithm: "article"})
	require.Zero(t, d.due(0))
	require.Equal(t, 20, d.due(time.Second/2))
	require.Equal(t, 100, d.due(time.Minute))
	d.algorithm = "naive"
	require.Equal(t, 100, d.due(0))
}

func TestDelaysOfTheArticle(t *testing.T) {
	t.Parallel()
	seen := map[time.Duration]int{}
	var sum time.Duration
	const draws = 10_000
	for range draws {
		d := delay()
		require.GreaterOrEqual(t, d, 60*time.Second)
		require.LessOrEqual(t, d, 120*time.Second)
		seen[d]++
		sum += d
	}
	require.GreaterOrEqual(t, len(seen), 55)
	require.InDelta(t, 90, (sum / draws).Seconds(), 1)
}

// With the engine asynq, workers choose the calls, and run those of a worker that has ended again.
func TestWorkersOfAsynqChooseTheirCalls(t *testing.T) {
	t.Parallel()
	d := newDealer(config{campaigns: 2, calls: 2, workers: 2, cps: 50, engine: "asynq"})
	a, b := d.newHand(), d.newHand()
	require.Empty(t, d.deal(a, time.Hour))
	for n := range 3 {
		d.note(a, 0, "run", n, "1")
		d.note(a, 0, "started", n, "")
	}
	d.note(a, 1, "done", 0, "")
	d.fold(a)
	require.Empty(t, d.returned)
	require.Equal(t, []int{1, 2}, d.inFlight)
	for range 2 { // the second worker has ended too
		for n := range 4 {
			d.note(b, 2, "run", n, "1")
			d.note(b, 2, "started", n, "")
		}
		d.fold(b)
	}
	require.Equal(t, []int{1, 2, 0, 3}, d.inFlight, "each once")
	for n := range 4 {
		d.note(b, 3, "run", n, "2")
		d.note(b, 3, "done", n, "")
	}
	require.Equal(t, 4, d.served, "0 was done twice")
	require.Zero(t, d.lost)
	require.Equal(t, 15, d.runs)
	require.Equal(t, 4, d.retried)
	require.True(t, d.finished())
}
