package redisbatch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/outbound/batch"
)

// A fleet is batchers of one process, and a count of what their vendor got.
type fleet struct {
	*testing.T
	client   *redis.Client
	batchers []*batch.Batcher[string, string]

	mu   sync.Mutex
	keys map[string]map[string]int // of the calls with each record
}

// startFleet starts n batchers, which end with the test.
func startFleet(t *testing.T, client *redis.Client, n int) *fleet {
	t.Helper()
	f := &fleet{T: t, client: client, keys: map[string]map[string]int{}}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	for range n {
		store, err := New(client, Config{})
		require.NoError(t, err)
		b, err := batch.New(batch.Config[string, string]{
			Method: methodOfAll, MaxRecords: 20, FlushAfter: 10 * time.Millisecond, Lease: 500 * time.Millisecond, Store: store,
			Option:  func(record string) string { return record[:1] },
			Backoff: backoff.Constant{Delay: 10 * time.Millisecond},
			Send:    f.send,
		})
		require.NoError(t, err)
		f.batchers = append(f.batchers, b)
		wg.Go(func() { _ = b.Run(ctx) })
	}
	return f
}

func (f *fleet) send(ctx context.Context, _ string, records []string) ([]batch.Result[string], error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	results := make([]batch.Result[string], len(records))
	for i, r := range records {
		if f.keys[r] == nil {
			f.keys[r] = map[string]int{}
		}
		f.keys[r][batch.IdempotencyKey(ctx)]++
		results[i].Value = "done " + r
	}
	return results, nil
}

// sent returns how many records were sent, and fails if one was sent with two keys.
func (f *fleet) sent() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	for r, keys := range f.keys {
		require.Len(f, keys, 1, r)
	}
	return len(f.keys)
}

func closed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// TestTheServerIsKilled: the server is killed and started again while records are added and sent. With
// appendfsync always, no record that was added is lost, and nothing gets stuck.
func TestTheServerIsKilled(t *testing.T) {
	t.Parallel()
	srv := startServer(t, "--appendonly", "yes", "--appendfsync", "always")
	f := startFleet(t, srv.client(t), 2)
	stop := make(chan struct{})
	var mu sync.Mutex
	added, failed := map[string]bool{}, 0
	var wg sync.WaitGroup
	for from := range 8 {
		wg.Go(func() {
			for i := 0; !closed(stop); i++ {
				r := fmt.Sprintf("%c%d/%d", 'a'+from, from, i)
				_, err := f.batchers[from%2].Add(context.Background(), r)
				mu.Lock()
				if err == nil {
					added[r] = true
				} else {
					failed++
					if !errors.Is(err, batch.ErrStore) || !strings.Contains(err.Error(), "redisbatch: ") {
						t.Errorf("Add = %v", err)
					}
				}
				mu.Unlock()
				time.Sleep(time.Millisecond) // so that there is something to send all the time
			}
		})
	}
	for range 3 {
		before := f.sent()
		require.Eventually(t, func() bool { return f.sent() > before+100 }, time.Minute, time.Millisecond)
		srv.Kill()
		time.Sleep(50 * time.Millisecond) // operations fail meanwhile
		require.NoError(t, srv.Restart())
	}
	before := f.sent()
	require.Eventually(t, func() bool { return f.sent() > before+100 }, time.Minute, time.Millisecond)
	close(stop)
	wg.Wait()
	require.NoError(t, f.batchers[0].Drain(context.Background()))
	drained(t, f.client, time.Minute)
	require.Positive(t, failed)
	f.sent()
	f.mu.Lock()
	defer f.mu.Unlock()
	for r := range added {
		require.NotEmpty(t, f.keys[r], "%s was added and never sent", r)
	}
	require.Empty(t, keys(t, f.client))
}

// TestTheServerLosesItsData: pending records are lost, which no error reports; but nothing gets stuck, and
// later records are sent.
func TestTheServerLosesItsData(t *testing.T) {
	t.Parallel()
	f := startFleet(t, startServer(t).client(t), 2)
	for round := range 10 {
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				_, err := f.batchers[i%2].Add(context.Background(), fmt.Sprintf("a%d/%d", round, i))
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if round%2 == 0 {
			require.NoError(t, f.client.FlushAll(t.Context()).Err())
		} else {
			require.NoError(t, f.client.ScriptFlush(t.Context()).Err())
			drained(t, f.client, time.Minute)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for round := 1; round < 10; round += 2 {
		for i := range 20 {
			require.NotEmpty(t, f.keys[fmt.Sprintf("a%d/%d", round, i)])
		}
	}
	require.Empty(t, keys(t, f.client))
}

// TestCallsFromTheOtherProcess: each Call gets the result of its own record, whichever batcher sends it.
func TestCallsFromTheOtherProcess(t *testing.T) {
	t.Parallel()
	f := startFleet(t, startServer(t).client(t), 3)
	var wg sync.WaitGroup
	for i := range 300 {
		wg.Go(func() {
			r := fmt.Sprintf("%d/%d", i%7, i)
			got, err := f.batchers[i%3].Call(context.Background(), r)
			if err != nil || got != "done "+r {
				t.Errorf("Call(%s) = %q, %v", r, got, err)
			}
		})
	}
	wg.Wait()
}

// TestErrorsSayWhy: what the server says is in the error, and nothing was changed.
func TestErrorsSayWhy(t *testing.T) {
	t.Parallel()
	srv := startServer(t)
	client := srv.client(t)
	s, clock := newStore(t, client)
	u := newUser(t, s)
	u.add("a")
	clock.add(flushAfter)
	b := u.lease(1)
	u.add("a")
	before := u.group("a")
	all := map[string]func() error{
		"Add": func() error {
			_, err := s.Add(u.ctx(), u.method, &batch.Record{ID: "x", Option: "a"}, plenty)
			return err
		},
		"Settle": func() error {
			return s.Settle(u.ctx(), u.method, batch.Settlement{ID: b.ID, Delivery: b.Delivery})
		},
		"Ready": func() error {
			_, err := s.Ready(u.ctx(), u.method, flushAfter)
			return err
		},
		"Lease": func() error {
			_, _, err := s.Lease(u.ctx(), u.method, batch.Terms{ID: "y", MaxRecords: 1})
			return err
		},
		"Extend": func() error { return s.Extend(u.ctx(), u.method, b.ID, b.Delivery, time.Hour, false) },
		"Flush":  func() error { return s.Flush(u.ctx(), u.method) },
		"Pause":  func() error { return s.Pause(u.ctx(), u.method, "a", true, 10) },
		"Delete": func() error {
			_, err := s.Delete(u.ctx(), u.method, "a")
			return err
		},
	}
	require.NoError(t, client.Do(t.Context(), "replicaof", "127.0.0.1", "1").Err())
	for name, f := range all {
		require.ErrorContains(t, f(), "redisbatch: the server is a replica, or cut off from its replicas: ", name)
	}
	require.NoError(t, client.Do(t.Context(), "replicaof", "no", "one").Err())
	require.Equal(t, before, u.group("a"))
	require.NoError(t, client.Set(t.Context(), keyPrefix("gresil", "other")+"p:a", "x", 0).Err())
	_, err := s.Add(u.ctx(), "other", &batch.Record{ID: "x", Option: "a"}, plenty)
	require.ErrorContains(t, err, "redisbatch: another program has written to a key of this method: ")
	srv.Kill()
	for name, f := range all {
		require.ErrorContains(t, f(), "redisbatch: the server cannot be reached: ", name)
	}
}

// A server that is out of memory accepts no records, but those that it has can leave.
func TestTheServerIsOutOfMemory(t *testing.T) {
	t.Parallel()
	client, s, clock, u := setup(t)
	u.add("a", untilDone("k"), func(r *batch.Record) { r.ReplyTo = []batch.Address{{Process: "p", Call: "c"}} })
	clock.add(flushAfter)
	require.NoError(t, client.ConfigSet(t.Context(), "maxmemory", "1").Err())
	const text = "redisbatch: the server is out of memory: "
	_, err := s.Add(u.ctx(), u.method, &batch.Record{ID: "x", Option: "a"}, plenty)
	require.ErrorContains(t, err, text)
	require.ErrorContains(t, s.Pause(u.ctx(), u.method, "a", true, 10), text)
	require.True(t, u.ready().Due)
	b := u.lease(1)
	require.NoError(t, s.Extend(u.ctx(), u.method, b.ID, b.Delivery, time.Hour, false))
	u.settle(b, func(s *batch.Settlement) {
		s.Failed, s.Results = []int{0}, []batch.Outcome{{Error: "no"}}
	})
	replies, err := s.Receive(u.ctx(), u.method, "p", 0)
	require.NoError(t, err)
	require.Equal(t, []batch.Reply{{Call: "c", Error: "no"}}, replies)
	n, err := s.Retry(u.ctx(), u.method, "a")
	require.NoError(t, err)
	require.Equal(t, 1, n)
	u.flush()
	u.settle(u.lease(1))
	require.NoError(t, client.ConfigSet(t.Context(), "maxmemory", "0").Err())
	require.Empty(t, keys(t, client))
}
