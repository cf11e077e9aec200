package share

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/ratelimittest"
)

// late starts f, whose operation is decided by the store at once. Its reply comes when the returned
// function is called, which waits for f.
func late(s *scripted, f func()) (reply func()) {
	gate := make(chan struct{})
	s.fail(nil, func(string) error { <-gate; return nil })
	var wg sync.WaitGroup
	wg.Go(f)
	synctest.Wait()
	s.fail(nil, nil)
	time.Sleep(time.Millisecond)
	return func() { close(gate); wg.Wait() }
}

func (s *scripted) down() { s.fail(func(string) error { return ratelimittest.ErrDown }, nil) }

// TestALateReplyIsOlderThanARefusal: the refusal is the last known state of the key.
func TestALateReplyIsOlderThanARefusal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &scripted{Store: inMemory()}
		l := newLimiter(t, newStore(t, store, Config{}), ratelimit.FixedWindow(100, time.Hour))
		time.Sleep(time.Millisecond)
		reply := late(store, func() { _ = core.Must(l.Take(context.Background(), "k", 1)) })
		require.EqualValues(t, 99, takeAll(t, l, "k"))
		reply()
		store.down()
		require.Zero(t, takeAll(t, l, "k"))
	})
}

// TestJoinedLimitsCountTakesWhoseRepliesAreOvertaken: the store reports only one of the limits, so
// each take is subtracted from the other one, whatever the order of the replies.
func TestJoinedLimitsCountTakesWhoseRepliesAreOvertaken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &scripted{Store: inMemory()}
		l := newLimiter(t, newStore(t, store, Config{}), ratelimit.FixedWindow(20, time.Hour).And(ratelimit.FixedWindow(10, time.Second)))
		var replies []func()
		for range 10 {
			replies = append(replies, late(store, func() { _ = core.Must(l.Take(context.Background(), "k", 1)) }))
		}
		for i := range replies {
			replies[len(replies)-1-i]()
		}
		store.down()
		granted := int64(10)
		for range 5 {
			granted += takeAll(t, l, "k")
			time.Sleep(time.Second)
		}
		require.EqualValues(t, 20, granted)
	})
}

// TestAResetKeepsTheTakesUnderWay: the store might have granted them after the reset.
func TestAResetKeepsTheTakesUnderWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &scripted{Store: inMemory()}
		l := newLimiter(t, newStore(t, store, Config{}), ratelimit.FixedWindow(100, time.Hour))
		take(t, l, "k", 1)
		reset := late(store, func() { _ = l.Reset(context.Background(), "k") })
		granted := late(store, func() { _ = core.Must(l.Take(context.Background(), "k", 100)) })
		reset()
		granted()
		store.down()
		require.Zero(t, takeAll(t, l, "k"))
	})
}

// TestALateReplyOfJoinedLimitsIsPartOfALaterReport: the take of the late reply is not subtracted twice, and
// the permits that it reports of one limit do not raise the other one.
func TestALateReplyOfJoinedLimitsIsPartOfALaterReport(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &scripted{Store: inMemory()}
		l := newLimiter(t, newStore(t, store, Config{}), ratelimit.FixedWindow(20, time.Hour).And(ratelimit.FixedWindow(10, time.Second)))
		reply := late(store, func() { _ = core.Must(l.Take(context.Background(), "k", 1)) })
		time.Sleep(time.Second)
		require.EqualValues(t, 10, takeAll(t, l, "k"))
		time.Sleep(time.Second)
		require.EqualValues(t, 2, take(t, l, "k", 7).Remaining)
		reply()
		time.Sleep(time.Second)
		store.down()
		require.EqualValues(t, 2, takeAll(t, l, "k"))
	})
}
