package redisbatch

import (
	"context"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/outbound/batch"
)

// together adds records by one script.
func together(t *testing.T, s *Store, rules batch.Rules, recs ...batch.Record) (added []batch.Added, errs []error) {
	t.Helper()
	items := make([]*item, len(recs))
	for i := range recs {
		items[i] = &item{rec: &recs[i], rules: rules}
		items[i].encode()
	}
	groups := grouped(items)
	r, err := s.run(t.Context(), addScript, len(groups), s.lane("contacts").args(groups))
	for i, g := range groups {
		var of reply
		if err == nil {
			of = r.list(i)
		}
		g.deliver(of, err)
	}
	for _, it := range items {
		added, errs = append(added, it.added), append(errs, it.err)
	}
	return added, errs
}

// Records with one key are one, also if they are sent together; the last one counts.
func TestOneKeyInOneScript(t *testing.T) {
	t.Parallel()
	_, s, clock, u := setup(t)
	to := func(call string) []batch.Address { return []batch.Address{{Process: "p", Call: call}} }
	added, errs := together(t, s, plenty,
		batch.Record{ID: "1", Option: "a", Key: "k", Payload: []byte("first"), Size: 5, ReplyTo: to("x")},
		batch.Record{ID: "2", Option: "a", Payload: []byte("plain"), Size: 5},
		batch.Record{ID: "3", Option: "a", Key: "k", Payload: []byte("second"), Size: 6, ReplyTo: to("y")},
		batch.Record{ID: "4", Option: "b", Key: "k", Payload: []byte("other"), Size: 5},
		batch.Record{ID: "5", Option: "a", Key: "k", Payload: []byte("third"), Size: 7},
	)
	require.Equal(t, make([]error, 5), errs)
	require.Equal(t, []batch.Added{{ID: "1"}, {ID: "2"}, {ID: "1", Replaced: true}, {ID: "4"}, {ID: "1", Replaced: true}}, added)
	require.EqualValues(t, 12, u.group("a").Bytes)
	clock.add(flushAfter)
	b := u.lease(10)
	require.ElementsMatch(t, []string{"third", "plain"}, payloads(b))
	for _, r := range b.Records {
		if r.ID == "1" {
			require.Equal(t, 7, r.Size)
			require.Equal(t, append(to("x"), to("y")...), r.ReplyTo)
		}
	}
}

// Of the records that are sent together, those are added for which there is room.
func TestARestThatHasRoom(t *testing.T) {
	t.Parallel()
	_, s, clock, u := setup(t)
	recs := make([]batch.Record, 5)
	for i := range recs {
		recs[i] = batch.Record{ID: string(rune('a' + i)), Option: "a", Payload: []byte{byte('a' + i)}, Size: 1 + i}
	}
	_, errs := together(t, s, batch.Rules{MaxPending: 3, MaxGroups: 1}, recs...)
	require.Equal(t, []error{nil, nil, nil, batch.ErrFull, batch.ErrFull}, errs)
	require.EqualValues(t, 1+2+3, u.group("a").Bytes)
	_, errs = together(t, s, batch.Rules{MaxPending: 4, MaxGroups: 1},
		batch.Record{ID: "x", Option: "b"}, batch.Record{ID: "y", Option: "a", Key: "k"}, batch.Record{ID: "z", Option: "a", Key: "l"})
	require.Equal(t, []error{batch.ErrGroups, nil, batch.ErrFull}, errs)
	require.Equal(t, 4, u.ready().Records)
	clock.add(flushAfter)
	require.Equal(t, []string{"a", "b", "c", ""}, payloads(u.lease(10)))
}

// silence is a server whose replies do not come: each command ends with an error when release is closed.
type silence struct {
	redis.Hook
	release  chan struct{}
	commands atomic.Int64
}

func (s *silence) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(context.Context, redis.Cmder) error {
		s.commands.Add(1)
		<-s.release
		return os.ErrDeadlineExceeded
	}
}

func (s *silence) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s *silence) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// TestASilentServerIsNotWaitedForByEachInTurn: records that waited during one timeout do not wait for
// others.
func TestASilentServerIsNotWaitedForByEachInTurn(t *testing.T) {
	t.Parallel()
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	t.Cleanup(func() { _ = client.Close() })
	server := &silence{release: make(chan struct{})}
	client.AddHook(server)
	store, err := New(client, Config{})
	require.NoError(t, err)
	errs := make(chan error)
	add := func() {
		_, err := store.Add(t.Context(), "m", &batch.Record{ID: "i", Option: "x", Size: 1}, batch.Rules{})
		errs <- err
	}
	for n := range int64(senders) {
		go add()
		require.Eventually(t, func() bool { return server.commands.Load() == n+1 }, time.Minute, time.Millisecond)
	}
	const waiting = 20 * maxItems
	for range waiting {
		go add()
	}
	l := store.lane("m")
	require.Eventually(t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.items == waiting
	}, time.Minute, time.Millisecond)
	close(server.release)
	for range senders + waiting {
		require.ErrorIs(t, <-errs, os.ErrDeadlineExceeded)
	}
	require.LessOrEqual(t, server.commands.Load(), int64(2*senders), "each sender has sent one of those that waited")
}
