package waitq_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/waitq"
)

func values(q *waitq.Queue[string]) (all []string) {
	for w := range q.All() {
		all = append(all, w.Value)
	}
	return all
}

func TestQueueKeepsTheOrderOfArrival(t *testing.T) {
	t.Parallel()
	var q waitq.Queue[string]
	require.Nil(t, q.First())
	a, b, c := q.Push("a", 1), q.Push("b", 2), q.Push("c", 4)
	require.Equal(t, []string{"a", "b", "c"}, values(&q))
	require.Equal(t, int64(7), q.Weight())
	require.Same(t, a, q.First())
	require.Same(t, c, q.Last())

	require.True(t, b.Waiting())
	b.Leave()
	b.Leave()
	require.False(t, b.Waiting())
	require.Equal(t, []string{"a", "c"}, values(&q))
	require.Equal(t, int64(5), q.Weight())
	require.Equal(t, 2, q.Len())
	c.Leave()
	require.Same(t, a, q.First())
	a.Leave()
	require.Nil(t, q.First())
	require.Zero(t, q.Weight())
	require.Zero(t, q.Len())
	q.Push("d", 1)
	require.Equal(t, []string{"d"}, values(&q))
}

func TestWaitersMayLeaveWhileTheQueueIsRead(t *testing.T) {
	t.Parallel()
	var q waitq.Queue[string]
	for _, v := range []string{"a", "b", "c"} {
		q.Push(v, 1)
	}
	for w := range q.All() {
		if w.Value != "b" {
			w.Leave()
		}
	}
	require.Equal(t, []string{"b"}, values(&q))
}

// A gate is the smallest mechanism: waiters pass, one by one, when a time has come.
type gate struct {
	mu    sync.Mutex
	queue waitq.Queue[time.Time]
}

func (g *gate) wait(ctx context.Context, done <-chan struct{}, at time.Time) error {
	g.mu.Lock()
	w := g.queue.Push(at, 1)
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		w.Leave()
		if first := g.queue.First(); first != nil {
			first.Signal()
		}
	}()
	return w.Await(ctx, done, func() (time.Duration, bool) {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.queue.First() != w {
			return time.Hour, false // until the waiter before it signals
		}
		left := time.Until(w.Value)
		return left, left <= 0
	})
}

func TestAwaitEndsWhenItsTimeHasCome(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var g gate
		start := time.Now()
		var wg sync.WaitGroup
		for i := range 5 {
			wg.Go(func() {
				if err := g.wait(t.Context(), nil, start.Add(time.Duration(i)*time.Second)); err != nil {
					t.Error(err)
				}
				if i == 0 && time.Since(start) != 0 {
					t.Errorf("the first waited %v", time.Since(start))
				}
			})
			synctest.Wait()
		}
		wg.Wait()
		require.Equal(t, 4*time.Second, time.Since(start))
	})
}

func TestAwaitEndsWithTheContextAndWithDone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var g gate
		never := time.Now().Add(24 * time.Hour)
		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		done := make(chan struct{})
		results := make(chan error, 2)
		go func() { results <- g.wait(ctx, done, never) }()
		synctest.Wait()
		cancel(gone)
		require.Equal(t, gone, <-results)
		go func() { results <- g.wait(t.Context(), done, never) }()
		synctest.Wait()
		close(done)
		require.Equal(t, core.ErrClosed, <-results)
		require.Zero(t, g.queue.Len())
	})
}

func TestASignalIsNeverLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var q waitq.Queue[int]
		w := q.Push(1, 1)
		looks := 0
		w.Signal()
		w.Signal() // pending signals are one
		require.NoError(t, w.Await(t.Context(), nil, func() (time.Duration, bool) {
			looks++
			return time.Hour, looks == 2
		}))
		require.Equal(t, 2, looks)
	})
}

// Another waiter gets what the head has reserved if that leaves, so it reserves within the time of the last. One who waits longer asks again.
func TestLineReservesForLast(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var lines waitq.Lines[int]
		var asked []time.Duration
		var refused [4]bool
		begun := time.Now()
		for i, most := range []time.Duration{time.Hour, 10 * time.Second, 2 * time.Hour, 20 * time.Second} {
			go func() {
				slot, err := lines.Wait(t.Context(), nil, "k", most, &waitq.Caller[int]{
					Weight: 1, Every: time.Hour, Room: 9, Queued: func() {}, Refuse: func(time.Duration) int { return 0 },
					After: func(_, more int64) time.Duration { return time.Duration(more) * time.Second },
					Reserve: func(_ context.Context, most time.Duration) (waitq.Slot[int], error) {
						asked = append(asked, most)
						time.Sleep(time.Second)
						at := begun.Add(time.Duration(len(asked)-1) * time.Minute)
						return waitq.Slot[int]{At: at, Refused: at.Sub(begun) > most}, nil
					},
				})
				assert.NoError(t, err)
				refused[i] = slot.Refused
			}()
			synctest.Wait()
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Equal(t, []time.Duration{time.Hour, 19 * time.Second, 2*time.Hour - 2*time.Second}, asked)
		require.Equal(t, [4]bool{false, true, false, true}, refused)
		require.False(t, lines.Has("k"))
	})
}

// Those who reserve at once are served in the order of their arrival, although the last of them is decided and answered first.
func TestLineKeepsOrderOfReplies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var lines waitq.Lines[int]
		var mu sync.Mutex
		var ended []int
		next, every := time.Now(), time.Millisecond
		var waiters sync.WaitGroup
		for i := range 6 {
			waiters.Go(func() {
				_, err := lines.Wait(t.Context(), nil, "k", time.Hour, &waitq.Caller[int]{
					Weight: 1, Every: every, Room: 9, Queued: func() {}, Refuse: func(time.Duration) int { return 0 },
					After: func(_, more int64) time.Duration { return time.Duration(more) * every },
					Reserve: func(context.Context, time.Duration) (waitq.Slot[int], error) {
						time.Sleep(10*every - time.Duration(i)*every)
						mu.Lock()
						defer mu.Unlock()
						next = later(next, time.Now()).Add(every)
						return waitq.Slot[int]{At: next}, nil
					},
				})
				assert.NoError(t, err)
				mu.Lock()
				defer mu.Unlock()
				ended = append(ended, i)
			})
			synctest.Wait()
		}
		waiters.Wait()
		require.Equal(t, []int{0, 1, 2, 3, 4, 5}, ended)
		require.False(t, lines.Has("k"))
	})
}

// Whoever cannot wait until the slot that has come first keeps what is on its way.
func TestLineKeepsOwnReply(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var lines waitq.Lines[int]
		begun, every := time.Now(), time.Millisecond
		var waiters sync.WaitGroup
		for i, row := range []struct{ most, reply, at time.Duration }{
			{time.Hour, 10 * every, 10 * every}, {15 * every, 12 * every, 12 * every}, {time.Hour, 11 * every, 20 * every},
		} {
			waiters.Go(func() {
				slot, err := lines.Wait(t.Context(), nil, "k", row.most, &waitq.Caller[int]{
					Weight: 1, Every: every, Room: 9, Queued: func() {}, Refuse: func(time.Duration) int { return 0 },
					After: func(_, more int64) time.Duration { return time.Duration(more) * every },
					Reserve: func(context.Context, time.Duration) (waitq.Slot[int], error) {
						time.Sleep(time.Until(begun.Add(row.reply)))
						return waitq.Slot[int]{At: begun.Add(row.at)}, nil
					},
				})
				assert.NoError(t, err)
				assert.False(t, slot.Refused, i)
				assert.Equal(t, row.at, time.Since(begun), i)
			})
			synctest.Wait()
		}
		waiters.Wait()
	})
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Who gets the answer for another one that has left, and waits longer than that asked for, asks again at once.
func TestLineAsksAgainForLonger(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var lines waitq.Lines[int]
		asked := 0
		gone, leave := context.WithCancel(t.Context())
		wait := func(ctx context.Context, most time.Duration) (waitq.Slot[int], error) {
			return lines.Wait(ctx, nil, "k", most, &waitq.Caller[int]{
				Weight: 1, Every: time.Hour, Room: 9, Queued: func() {}, Refuse: func(time.Duration) int { return 0 },
				After: func(_, more int64) time.Duration { return time.Duration(more) * time.Second },
				Reserve: func(context.Context, time.Duration) (waitq.Slot[int], error) {
					asked++
					time.Sleep(500 * time.Millisecond)
					return waitq.Slot[int]{At: time.Now().Add(30 * time.Minute), Refused: asked == 1}, nil
				},
			})
		}
		go func() { _, _ = wait(gone, time.Second) }()
		synctest.Wait()
		begun := time.Now()
		var waiters sync.WaitGroup
		waiters.Go(func() {
			slot, err := wait(t.Context(), time.Hour)
			assert.NoError(t, err)
			assert.False(t, slot.Refused)
			assert.Equal(t, 30*time.Minute+time.Second, time.Since(begun))
		})
		synctest.Wait()
		waiters.Go(func() {
			slot, err := wait(t.Context(), time.Second)
			assert.NoError(t, err)
			assert.True(t, slot.Refused)
		})
		synctest.Wait()
		leave()
		waiters.Wait()
		require.Equal(t, 2, asked)
	})
}

// A failure of the store that lets one waiter pass has all others ask at once: otherwise each waits for its own.
func TestLineWithoutDecisions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var lines waitq.Lines[int]
		var waiters sync.WaitGroup
		begun := time.Now()
		for range 20 {
			waiters.Go(func() {
				slot, err := lines.Wait(t.Context(), nil, "k", 100*time.Hour, &waitq.Caller[int]{
					Weight: 1, Every: time.Hour, Room: 99, Queued: func() {},
					After: func(_, more int64) time.Duration { return time.Duration(more) * time.Hour },
					Reserve: func(context.Context, time.Duration) (waitq.Slot[int], error) {
						time.Sleep(time.Second)
						return waitq.Slot[int]{Free: true}, nil
					},
				})
				assert.NoError(t, err)
				assert.True(t, slot.Free)
			})
		}
		waiters.Wait()
		require.Equal(t, 2*time.Second, time.Since(begun))
	})
}
