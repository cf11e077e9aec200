package redisbatch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/outbound/batch"
)

func TestNewRefusesWhatCannotBeUsed(t *testing.T) {
	t.Parallel()
	for _, prefix := range []string{"a b", "{a}", strings.Repeat("x", 65)} {
		_, err := New(redis.NewClient(&redis.Options{}), Config{Prefix: prefix})
		var bad *core.ConfigError
		require.ErrorAs(t, err, &bad, prefix)
		require.Equal(t, "redisbatch.Config.Prefix", bad.Field)
	}
	for _, client := range []redis.UniversalClient{nil, (*redis.Client)(nil)} {
		_, err := New(client, Config{})
		require.EqualError(t, err, "redisbatch client = <nil>: must not be nil")
	}
}

// A pluck that moves many records must neither fail halfway nor lose any: Lua returns 8,000 values at most.
func TestManyRecordsAtOnce(t *testing.T) {
	t.Parallel()
	client, s, clock, u := setup(t)
	const n = 9000
	made := records(n, 1)
	for i := range made {
		made[i].Option = "all"
	}
	var wg sync.WaitGroup
	for from := range 100 {
		wg.Go(func() {
			for i := from; i < n; i += 100 {
				if _, err := s.Add(u.ctx(), u.method, &made[i], plenty); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	clock.add(flushAfter)
	b := u.lease(n)
	require.Len(t, b.Records, n)
	all := make([]int, n)
	seen := map[string]bool{}
	for i, r := range b.Records {
		all[i], seen[r.ID] = i, true
		require.NotEmpty(t, r.Payload)
	}
	require.Len(t, seen, n)
	u.settle(b, func(s *batch.Settlement) { s.Failed, s.MaxFailed = all, n })
	require.Equal(t, n, u.group("all").Failed)
	moved, err := s.Retry(u.ctx(), u.method, "all")
	require.NoError(t, err)
	require.Equal(t, n, moved)
	b = u.lease(n)
	require.Len(t, b.Records, n)
	u.settle(b, func(s *batch.Settlement) { s.Parts = []batch.Part{{ID: "again", Records: all}} })
	removed, err := s.Delete(u.ctx(), u.method, "all")
	require.NoError(t, err)
	require.Equal(t, n, removed)
	require.Empty(t, keys(t, client))
}

// Many groups are flushed, leased in the order of their first records, and listed.
func TestManyGroups(t *testing.T) {
	t.Parallel()
	client, s, clock, u := setup(t)
	const n = slice + 1
	for i := range n {
		u.add(fmt.Sprint(n - i))
		clock.add(time.Millisecond)
	}
	for _, limit := range []int{1, slice, slice + 1, n, n + 1} {
		l, err := s.Groups(u.ctx(), u.method, limit)
		require.NoError(t, err)
		require.Len(t, l.Groups, min(limit, n))
	}
	served := func() {
		for i := range n {
			b := u.lease(1)
			require.Equal(t, fmt.Sprint(n-i), b.Option)
			u.settle(b, func(s *batch.Settlement) { s.Parts = []batch.Part{{ID: b.ID, Records: []int{0}, After: time.Hour}} })
			clock.add(time.Millisecond)
		}
		require.False(t, u.ready().Due)
	}
	u.flush()
	served()
	clock.add(time.Hour)
	served()
	for i := range n {
		removed, err := s.Delete(u.ctx(), u.method, fmt.Sprint(i+1))
		require.NoError(t, err)
		require.Equal(t, 1, removed)
	}
	require.Empty(t, keys(t, client))
}

// Groups that have become due by time take their turns in the order of these times.
func TestTurnsInTheOrderOfTimes(t *testing.T) {
	t.Parallel()
	_, _, clock, u := setup(t)
	u.add("after 70 s")
	u.flush()
	b := u.lease(1)
	u.settle(b, func(s *batch.Settlement) {
		s.Parts = []batch.Part{{ID: b.ID, Records: []int{0}, After: 70 * time.Second}}
	})
	clock.add(5 * time.Second)
	u.add("after 65 s")
	clock.add(15 * time.Second)
	u.add("after 80 s")
	clock.add(flushAfter)
	for _, option := range []string{"after 65 s", "after 70 s", "after 80 s"} {
		require.Equal(t, option, u.lease(1).Option)
	}
}

func keys(t *testing.T, client *redis.Client) []string {
	t.Helper()
	names, err := client.Keys(t.Context(), "*").Result()
	require.NoError(t, err)
	var stay []string
	for _, name := range names {
		if client.TTL(t.Context(), name).Val() < 0 {
			stay = append(stay, name)
		}
	}
	return stay
}

// TestNothingIsLeftInTheServer: when all records are done, only keys are left that expire.
func TestNothingIsLeftInTheServer(t *testing.T) {
	t.Parallel()
	client, s, clock, u := setup(t)
	for _, option := range []string{"a", "b"} {
		u.add(option)
		u.add(option, keyed("k"))
		u.add(option, untilDone("d"))
		u.add(option, func(r *batch.Record) { r.ReplyTo = []batch.Address{{Process: "p", Call: "c"}} })
		u.add(option, func(r *batch.Record) { r.Payload = make([]byte, maxInline+1) })
	}
	require.NoError(t, s.Pause(u.ctx(), u.method, "c", true, 10))
	require.NoError(t, s.Pause(u.ctx(), u.method, "c", false, 10))
	clock.add(flushAfter)
	for range 2 {
		b := u.lease(10)
		require.Len(t, b.Records, 5)
		u.settle(b, func(s *batch.Settlement) {
			s.Failed, s.MaxFailed, s.Error = []int{0, 1}, 0, "no"
			s.Results = []batch.Outcome{{Record: 3, Payload: []byte("{}")}}
			s.Parts = []batch.Part{{ID: b.ID, Records: []int{4}}}
		})
	}
	for range 2 {
		u.settle(u.lease(10))
	}
	require.Equal(t, batch.State{Next: -1}, u.ready())
	u.flush("a", "d")
	u.flush()
	for _, f := range []func(context.Context, string, string) (int, error){s.Delete, s.Retry} {
		n, err := f(u.ctx(), u.method, "d")
		require.NoError(t, err)
		require.Zero(t, n)
	}
	for _, rules := range []batch.Rules{{MaxGroups: 1}, {MaxPending: 1}} {
		_, err := s.Add(u.ctx(), u.method, &batch.Record{ID: "x", Option: "d"}, rules)
		require.ErrorIs(t, err, core.ErrRejected)
	}
	require.Error(t, s.Settle(u.ctx(), u.method, batch.Settlement{ID: "none", Delivery: 1}))
	require.Error(t, s.Extend(u.ctx(), u.method, "none", 1, time.Hour, false))
	require.Empty(t, u.lease(1).Records)
	require.Empty(t, keys(t, client))
}

// Records that are done leave nothing in a group that goes on.
func TestDoneRecordsLeaveNothing(t *testing.T) {
	t.Parallel()
	client, _, clock, u := setup(t)
	for _, key := range []string{"1", "2"} { // the second ones fail, and are not kept
		u.add("a", keyed(key))
		u.add("a", untilDone("d"+key), func(r *batch.Record) { r.ReplyTo = []batch.Address{{Process: "p", Call: "c"}} })
		u.add("a", func(r *batch.Record) { r.Payload = make([]byte, maxInline+1) })
	}
	u.add("a")
	clock.add(flushAfter)
	u.settle(u.lease(3))
	u.settle(u.lease(3), func(s *batch.Settlement) { s.Failed, s.MaxFailed = []int{0, 1, 2}, 0 })
	base := keyPrefix("gresil", u.method)
	require.ElementsMatch(t, []string{base + "m", base + "all", base + "q", base + "g:a", base + "p:a"}, keys(t, client))
}

// TestScriptsThatTheServerForgot: a server that has lost its scripts gets them again.
func TestScriptsThatTheServerForgot(t *testing.T) {
	t.Parallel()
	client, _, clock, u := setup(t)
	forget := func() { require.NoError(t, client.ScriptFlush(t.Context()).Err()) }
	u.add("a")
	forget()
	u.add("a")
	clock.add(flushAfter)
	forget()
	require.True(t, u.ready().Due)
	forget()
	b := u.lease(10)
	require.Equal(t, []string{"p1", "p2"}, payloads(b))
	forget()
	u.settle(b)
	require.Empty(t, keys(t, client))
}

// A lease whose reply was lost is repeated with its ID.
func TestALeaseWhoseReplyWasLost(t *testing.T) {
	t.Parallel()
	_, s, clock, u := setup(t)
	u.add("a")
	u.add("a")
	clock.add(flushAfter)
	terms := batch.Terms{ID: "b", MaxRecords: 1, FlushAfter: flushAfter, Lease: leaseTime}
	lease := func() batch.Batch {
		b, _, err := s.Lease(u.ctx(), u.method, terms)
		require.NoError(t, err)
		return b
	}
	first := lease()
	clock.add(leaseTime / 2)
	again := lease()
	require.Equal(t, payloads(first), payloads(again))
	require.Equal(t, "b", again.ID)
	u.settle(again)
	other := lease()
	require.Equal(t, []string{"p2"}, payloads(other), "the ID is free")
	clock.add(leaseTime)
	require.Empty(t, lease().Records, "the lease is over: another process may have the batch by now")
	terms.ID = "c"
	require.Equal(t, "b", lease().ID)
}

// A settlement that cannot be executed changes nothing.
func TestASettlementOfOtherRecords(t *testing.T) {
	t.Parallel()
	_, s, clock, u := setup(t)
	u.add("a")
	u.add("a")
	clock.add(flushAfter)
	b := u.lease(10)
	for name, is := range map[string]batch.Settlement{
		"a failed record that is not there": {Failed: []int{2}},
		"a negative one":                    {Failed: []int{-1}},
		"one that failed and is tried again": {
			Failed: []int{0},
			Parts:  []batch.Part{{ID: "x", Records: []int{0}}},
		},
		"two parts": {Parts: []batch.Part{{ID: "x", Records: []int{0}}, {ID: "y", Records: []int{0}}}},
		"one ID":    {Parts: []batch.Part{{ID: "x", Records: []int{0}}, {ID: "x", Records: []int{1}}}},
		"a result":  {Results: []batch.Outcome{{Record: 7}}},
	} {
		is.ID, is.Delivery, is.MaxFailed = b.ID, b.Delivery, 10
		require.Error(t, s.Settle(u.ctx(), u.method, is), name)
		require.Equal(t, 2, u.group("a").InFlight, name)
	}
	u.settle(b)
	require.Zero(t, u.ready().Records)
}

// Replies are lost neither if the connection breaks before they arrive, nor received twice after that.
func TestRepliesAreRemovedByTheNextReceive(t *testing.T) {
	t.Parallel()
	client, s, clock, u := setup(t)
	const n = 3*maxReplies + 1
	for i := range n {
		u.add("a", func(r *batch.Record) { r.ReplyTo = []batch.Address{{Process: "p", Call: fmt.Sprint(i)}} })
	}
	clock.add(flushAfter)
	b := u.lease(n)
	u.settle(b, func(s *batch.Settlement) {
		for i := range n {
			s.Results = append(s.Results, batch.Outcome{Record: i, Payload: []byte("{}")})
		}
	})
	lost, err := New(client, Config{}) // a process that does not come back for the next ones
	require.NoError(t, err)
	first, err := lost.Receive(u.ctx(), u.method, "p", 0)
	require.NoError(t, err)
	require.Len(t, first, maxReplies)
	seen := map[string]int{}
	for range 4 {
		replies, err := s.Receive(u.ctx(), u.method, "p", 0)
		require.NoError(t, err)
		for _, r := range replies {
			seen[r.Call]++
		}
	}
	require.Len(t, seen, n)
	for call, times := range seen {
		require.Equal(t, 1, times, call)
	}
	none, err := s.Receive(u.ctx(), u.method, "p", time.Millisecond)
	require.NoError(t, err)
	require.Empty(t, none)
}

// A loser is a hook that loses the reply to the next script.
type loser struct{ active bool }

var errLost = errors.New("lost")

func (*loser) DialHook(next redis.DialHook) redis.DialHook { return next }

func (*loser) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (l *loser) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if l.active && err == nil {
			l.active = false
			cmd.SetErr(errLost)
			return errLost
		}
		return err
	}
}

// A cutter is a connection that ends when the reply to a command should be read.
type cutter struct {
	net.Conn
	cut *atomic.Bool
}

func (c cutter) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.cut.CompareAndSwap(true, false) {
		_ = c.Close()
		return 0, io.EOF
	}
	return n, err
}

// An Add whose reply was lost is an error, and is not sent again by the client: the record would be there
// twice.
func TestAnAddWhoseReplyWasLost(t *testing.T) {
	t.Parallel()
	srv := startServer(t)
	var cut atomic.Bool
	client := redis.NewClient(&redis.Options{Addr: srv.Addr, Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		return cutter{conn, &cut}, err
	}})
	t.Cleanup(func() { _ = client.Close() })
	s, _ := newStore(t, client)
	u := newUser(t, s)
	u.add("a") // so that the connection and the script are there
	cut.Store(true)
	_, err := s.Add(u.ctx(), u.method, &batch.Record{ID: "x", Option: "a"}, plenty)
	require.ErrorContains(t, err, "redisbatch: the server cannot be reached: ")
	require.Equal(t, 2, u.group("a").Pending)
}

// A client waits for its ReadTimeout only; that does not limit the wait for a reply.
func TestAReceiveIsNotLimitedByTheReadTimeout(t *testing.T) {
	t.Parallel()
	client := redis.NewClient(&redis.Options{Addr: startServer(t).Addr, ReadTimeout: 300 * time.Millisecond, MaxRetries: -1})
	t.Cleanup(func() { _ = client.Close() })
	s, err := New(client, Config{})
	require.NoError(t, err)
	replies, err := s.Receive(t.Context(), "contacts", "p", time.Second)
	require.NoError(t, err)
	require.Empty(t, replies)
}

// A Receive whose reply is lost has removed the replies before it, which the next one must not do again.
func TestAReceiveWhoseReplyWasLost(t *testing.T) {
	t.Parallel()
	client := startServer(t).client(t)
	lose := &loser{}
	client.AddHook(lose)
	s, clock := newStore(t, client)
	u := newUser(t, s)
	answered := func(from, to int) {
		for i := from; i < to; i++ {
			u.add("a", func(r *batch.Record) { r.ReplyTo = []batch.Address{{Process: "p", Call: fmt.Sprint(i)}} })
		}
		clock.add(flushAfter)
		u.settle(u.lease(to), func(s *batch.Settlement) {
			for i := range to - from {
				s.Results = append(s.Results, batch.Outcome{Record: i, Payload: []byte("{}")})
			}
		})
	}
	var calls []string
	receive := func() error {
		replies, err := s.Receive(u.ctx(), u.method, "p", 0)
		for _, r := range replies {
			calls = append(calls, r.Call)
		}
		return err
	}
	answered(0, 2)
	require.NoError(t, receive())
	answered(2, 6)
	lose.active = true
	require.ErrorIs(t, receive(), errLost)
	require.NoError(t, receive())
	require.NoError(t, receive())
	require.Equal(t, []string{"0", "1", "2", "3", "4", "5"}, calls)
}

// A caller that leaves does not wait for the server, and its record is not sent if that can be avoided.
func TestACallerThatLeaves(t *testing.T) {
	t.Parallel()
	srv := startServer(t)
	client := srv.client(t)
	s, _ := newStore(t, client)
	u := newUser(t, s)
	require.NoError(t, client.Do(t.Context(), "client", "pause", "600000", "write").Err())
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("gone")
	var wg sync.WaitGroup
	l := s.lane(u.method)
	for i := range senders + 10 {
		wg.Go(func() {
			_, err := s.Add(ctx, u.method, &batch.Record{ID: fmt.Sprint("gone", i), Option: "a"}, plenty)
			if err != gone { //nolint:errorlint // it is the cause itself
				t.Error(err)
			}
		})
		require.Eventually(t, func() bool {
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.busy == min(i+1, senders) && l.items == max(0, i+1-senders)
		}, 20*time.Second, time.Millisecond)
	}
	cancel(gone)
	wg.Wait()
	require.NoError(t, client.Do(t.Context(), "client", "unpause").Err())
	u.add("b")
	require.LessOrEqual(t, u.group("a").Pending, senders)
	_, err := s.Add(ctx, u.method, &batch.Record{ID: "late", Option: "late"}, plenty)
	require.Equal(t, gone, err)
	require.Zero(t, u.group("late").Pending)
}
