package redisstore

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
)

// TestFlightsWithUnknownScripts: what is sent again would come behind what follows it.
func TestFlightsWithUnknownScripts(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	client := startServer(t).client(t)
	s := newStore(t, client, Config{Mode: Coalesced})
	table := open(t, s, "t").(*table) //nolint:forcetypeassert // it is one of ours
	for name, l := range kinds(100, time.Hour) {
		id := planned(t, table, l)
		p := planOf(id)
		for range 2 {
			reset := table.request(name, p, limits.Op{Kind: limits.Reset})
			require.NoError(t, client.ScriptFlush(ctx).Err())
			require.NoError(t, client.ScriptLoad(ctx, reset.script.text).Err())
			for range 2 {
				batch := []*request{table.request(name, p, limits.Op{Cost: 10}), reset}
				sendAlone(t, s.laneOf(reset.key), batch)
				require.NoError(t, batch[0].err, name)
				require.NoError(t, batch[1].err, name)
				require.EqualValues(t, 90, batch[0].r.Remaining, name)
				require.EqualValues(t, 100, batch[1].r.Remaining, name)
			}
			require.False(t, s.odd.has(s.hash(reset.key)), "that scripts of a batch differ says nothing of the value")
			s.first.scripts.Clear()
		}
	}
}

// TestFlightsWithForeignValues fails alone: the keys in the same command are decided, and once.
func TestFlightsWithForeignValues(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	client := startServer(t).client(t)
	for name, l := range kinds(100, time.Hour) {
		for _, mode := range []Mode{Strict, Coalesced} {
			s := newStore(t, client, Config{Mode: mode})
			table := open(t, s, name+string(mode)).(*table) //nolint:forcetypeassert // it is one of ours
			id := planned(t, table, l)
			p := planOf(id)
			require.NoError(t, client.HSet(ctx, table.keyName("hash"), "a", "b").Err())
			require.NoError(t, client.Set(ctx, table.keyName("text"), "text", time.Hour).Err())
			keys := []string{"a", "hash", "b", "text", "c"}
			var batch []*request
			for _, key := range keys {
				batch = append(batch, table.request(key, p, limits.Op{Cost: 10}))
			}
			sendAlone(t, s.laneOf(batch[0].key), batch)
			for i, key := range keys {
				if bad := key == "hash" || key == "text"; bad {
					require.False(t, batch[i].ok)
					require.ErrorContains(t, batch[i].err, "WRONGTYPE "+batch[i].key)
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
func sendAlone(t *testing.T, l *lane, batch []*request) {
	t.Helper()
	trip, err := l.node.admit(t.Context())
	require.NoError(t, err)
	for _, it := range batch {
		it.state.Store(sent)
	}
	trip.exchange(t.Context(), t.Context(), batch)
}

// TestFlightsKeepTheOrder: whatever scripts decide, what one key is asked is asked in the
// order of the calls, and side by side where one script does.
func TestFlightsKeepTheOrder(t *testing.T) {
	t.Parallel()
	bucket, window, decide, plans := new(part), new(part), accountScript(algBucket), []*plan{{}, {}}
	for _, single := range []bool{true, false} {
		l := &lane{node: &node{store: &Store{single: single}}}
		rng := rand.New(rand.NewPCG(1, 1)) //nolint:gosec // a test is repeated by its seed
		for range 200 {
			var batch []*request
			calls := map[string][]*request{}
			for i := range rng.IntN(maxBatch) {
				req := &request{args: []any{i}, key: strconv.Itoa(rng.IntN(20)), hot: bucket, all: true}
				switch rng.IntN(20) {
				case 0:
					req.script, req.hot, req.plan = decide, nil, plans[rng.IntN(2)]
				case 1:
					req.hot = window
				}
				batch = append(batch, req)
				calls[req.key] = append(calls[req.key], req)
			}
			flights := l.node.flights(batch)
			sent := map[string][]*request{}
			for _, f := range flights {
				runs := map[string]bool{}
				for i, it := range f.items {
					sent[it.key] = append(sent[it.key], it)
					require.Equal(t, f.items[0].script, it.script)
					require.Same(t, f.items[0].hot, it.hot)
					require.Same(t, f.items[0].plan, it.plan)
					require.False(t, runs[it.key] && f.items[i-1].key != it.key, "a key is in one place")
					runs[it.key] = true
				}
				require.True(t, single || len(runs) == 1)
			}
			require.Equal(t, calls, sent)
		}
	}
}

// TestFlightsOfTwoKinds: a key that owes under two kinds needs the general script. Takes of
// one key are decided in the order of the calls all the same, also with those under the other limit.
func TestFlightsOfTwoKinds(t *testing.T) {
	t.Parallel()
	for name, second := range map[string]ratelimit.Limit{"bucket": ratelimit.TokenBucket(8, time.Hour, 8), "window": ratelimit.FixedWindow(8, time.Hour)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := startServer(t).client(t)
			s := newStore(t, client, Config{Mode: Coalesced})
			table := open(t, s, "t")
			take(t, table, "k", ratelimit.TokenBucket(8, time.Hour, 8), 1)
			take(t, table, "k", ratelimit.FixedWindow(8, time.Hour), 1)
			id := planned(t, table, second)
			other := planned(t, table, ratelimit.SlidingLog(100, time.Hour))
			l := s.laneOf(keyName(keyPrefix(defaultPrefix, "t"), "k", false))
			resume := pause(t, client, l)
			const callers = 12
			var left [callers]int64
			var wg sync.WaitGroup
			for i := range callers {
				plan := id
				if i == 5 {
					plan = other // with a script of its own, in the middle
				}
				wg.Go(func() {
					r, err := table.Apply(t.Context(), "k", plan, limits.Op{Cost: 1})
					if err != nil {
						t.Error(err)
					}
					if left[i] = r.Remaining; !r.Allowed {
						left[i] = -1
					}
				})
				require.Eventually(t, func() bool { // it is behind the one before
					l.mu.Lock()
					defer l.mu.Unlock()
					return l.busy && len(l.queue) == max(0, i)
				}, busy, 50*time.Microsecond)
			}
			resume()
			wg.Wait()
			require.Equal(t, [callers]int64{5, 4, 3, 2, 1, 92, -1, -1, -1, -1, -1, -1}, left)
		})
	}
}
