package redisstore

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
)

func TestWhoLeavesTakesNothing(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	client := startServer(t).client(t)
	s := newStore(t, client, Config{Mode: Coalesced})
	table := open(t, s, "t")
	for name, l := range kinds(100, time.Hour) {
		id, err := table.Plan(limits.Limit(l).Specs())
		require.NoError(t, err)
		take(t, table, name, l, 10)
		resume := pause(t, client)
		var wg sync.WaitGroup
		for range 20 { // one is under way when the rest comes
			wg.Go(func() {
				short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
				defer cancel()
				_, err := table.Apply(short, name, id, limits.Op{Cost: 1})
				if err == nil {
					t.Error("answered by a server that was paused")
				}
			})
		}
		wg.Wait()
		resume()
		require.Eventually(t, func() bool { return take(t, table, name, l, 0).Remaining == 90 }, time.Minute, 10*time.Millisecond, name)
	}
}

func TestCloseEndsThoseWhoWait(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	client := startServer(t).client(t)
	s := newStore(t, client, Config{Mode: Coalesced})
	table := open(t, s, "t")
	take(t, table, "k", ratelimit.PerHour(10), 1)
	l := s.laneOf(keyName(keyPrefix(defaultPrefix, "t"), "k", false))
	resume := pause(t, client, l)
	errs := make(chan error, 20)
	call := func() {
		_, err := table.Apply(ctx, "k", planned(t, table, ratelimit.PerHour(9)), limits.Op{Cost: 1})
		errs <- err
	}
	go call()
	require.Eventually(t, queued(l, 0), time.Minute, time.Millisecond) // it is under way
	for range cap(errs) - 1 {
		go call()
	}
	require.Eventually(t, queued(l, cap(errs)-1), time.Minute, time.Millisecond)
	closed := make(chan error)
	go func() { closed <- s.Close() }()
	require.Eventually(t, func() bool { return s.closed.Load() && queued(l, 0)() }, patient, time.Millisecond)
	resume() // Close waits for the one that is under way
	require.NoError(t, <-closed)
	ended := 0
	for range cap(errs) {
		if err := <-errs; err != nil {
			require.ErrorIs(t, err, core.ErrClosed)
			ended++
		}
	}
	require.Equal(t, cap(errs)-1, ended)
}

// TestManyAtOnceAreFewCommands: what comes while a batch is under way is one command more.
func TestManyAtOnceAreFewCommands(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	client := startServer(t).client(t)
	s := newStore(t, client, Config{Mode: Coalesced})
	table := open(t, s, "t")
	l := ratelimit.TokenBucket(100, time.Hour, 100)
	take(t, table, "k", l, 1)
	id, err := table.Plan(limits.Limit(l).Specs())
	require.NoError(t, err)
	require.NoError(t, client.ConfigResetStat(ctx).Err())
	lane := s.laneOf(keyName(keyPrefix(defaultPrefix, "t"), "k", false))
	resume := pause(t, client, lane)
	var wg sync.WaitGroup
	var mu sync.Mutex
	left := map[int64]bool{}
	for i := range 150 {
		if i == 1 {
			require.Eventually(t, queued(lane, 0), patient, time.Millisecond)
		}
		wg.Go(func() {
			r, err := table.Apply(ctx, "k", id, limits.Op{Cost: 1})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			} else if r.Allowed {
				left[r.Remaining] = true
			}
		})
	}
	require.Eventually(t, queued(lane, 149), patient, time.Millisecond)
	resume()
	wg.Wait()
	require.Len(t, left, 99, "each was granted another one")
	stats := client.Info(ctx, "commandstats").Val()
	require.Regexp(t, `cmdstat_evalsha:calls=[1-9],`, stats)
}

// TestAScriptThatIsNotKnownKeepsTheOrder: what is sent again would come behind what follows it.
func TestAScriptThatIsNotKnownKeepsTheOrder(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	client := startServer(t).client(t)
	s := newStore(t, client, Config{Mode: Coalesced})
	table := open(t, s, "t").(*table) //nolint:forcetypeassert // it is one of ours
	for name, l := range kinds(100, time.Hour) {
		id, err := table.Plan(limits.Limit(l).Specs())
		require.NoError(t, err)
		p := planOf(id)
		for range 2 {
			reset := table.request(name, p, limits.Op{Kind: limits.Reset})
			require.NoError(t, client.ScriptFlush(ctx).Err())
			require.NoError(t, client.ScriptLoad(ctx, reset.script.text).Err())
			for range 2 {
				batch := []*item{{request: table.request(name, p, limits.Op{Cost: 10}), done: make(chan struct{})}, {request: reset, done: make(chan struct{})}}
				sendAlone(t, s.laneOf(reset.key), batch)
				require.NoError(t, batch[0].err, name)
				require.NoError(t, batch[1].err, name)
				require.EqualValues(t, 90, batch[0].r.Remaining, name)
				require.EqualValues(t, 100, batch[1].r.Remaining, name)
			}
			s.first.scripts.Clear()
		}
	}
}

// TestAKeyThatCannotBeRead fails alone: the keys in the same command are decided, and once.
func TestAKeyThatCannotBeRead(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	client := startServer(t).client(t)
	for name, l := range kinds(100, time.Hour) {
		for _, mode := range []Mode{Strict, Coalesced} {
			s := newStore(t, client, Config{Mode: mode})
			table := open(t, s, name+string(mode)).(*table) //nolint:forcetypeassert // it is one of ours
			id, err := table.Plan(limits.Limit(l).Specs())
			require.NoError(t, err)
			p := planOf(id)
			require.NoError(t, client.HSet(ctx, table.keyName("hash"), "a", "b").Err())
			require.NoError(t, client.Set(ctx, table.keyName("text"), "text", time.Hour).Err())
			keys := []string{"a", "hash", "b", "text", "c"}
			var batch []*item
			for _, key := range keys {
				batch = append(batch, &item{request: table.request(key, p, limits.Op{Cost: 10}), done: make(chan struct{})})
			}
			sendAlone(t, s.laneOf(batch[0].key), batch)
			for i, key := range keys {
				if bad := key == "hash" || key == "text"; bad {
					require.False(t, batch[i].ok)
					_, err := table.Apply(ctx, key, id, limits.Op{Cost: 1})
					require.ErrorContains(t, err, "WRONGTYPE "+batch[i].key+" holds a value that is none of a limit")
					continue
				}
				require.NoError(t, batch[i].err)
				require.True(t, batch[i].ok)
				require.EqualValues(t, 90, take(t, table, key, l, 0).Remaining, key)
			}
		}
	}
}

// sendAlone sends a batch that is in no queue, over a lane.
func sendAlone(t *testing.T, l *lane, batch []*item) {
	t.Helper()
	trip, err := l.node.admit(t.Context())
	require.NoError(t, err)
	for _, it := range batch {
		it.state.Store(sent)
	}
	trip.exchange(t.Context(), t.Context(), batch)
}

// TestABatchKeepsTheOrderOfAKey: whatever scripts decide, what one key is asked is asked in the
// order of the calls, and side by side where one script does.
func TestABatchKeepsTheOrderOfAKey(t *testing.T) {
	t.Parallel()
	bucket, window, decide := bucketScript(), windowScript(), accountScript(algBucket)
	for _, single := range []bool{true, false} {
		l := &lane{node: &node{store: &Store{single: single}}}
		rng := rand.New(rand.NewPCG(1, 1)) //nolint:gosec // a test is repeated by its seed
		for range 200 {
			var batch []*item
			calls := map[string][]*item{}
			for i := range rng.IntN(maxBatch) {
				req := &request{args: []any{i}, key: strconv.Itoa(rng.IntN(20)), script: bucket, width: 2, all: true}
				switch rng.IntN(20) {
				case 0:
					req.script, req.width = decide, 0
				case 1:
					req.script, req.width = window, 3
				}
				it := &item{request: req}
				batch = append(batch, it)
				calls[req.key] = append(calls[req.key], it)
			}
			flights := l.node.flights(batch)
			sent := map[string][]*item{}
			for _, f := range flights {
				runs := map[string]bool{}
				for i, it := range f.items {
					sent[it.key] = append(sent[it.key], it)
					require.Same(t, f.items[0].script, it.script)
					require.False(t, runs[it.key] && f.items[i-1].key != it.key, "a key is in one place")
					runs[it.key] = true
				}
				require.True(t, f.items[0].width > 0 || len(f.items) == 1)
				require.True(t, single || len(runs) == 1)
			}
			require.Equal(t, calls, sent)
		}
	}
}
