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
)

func TestWhoLeavesTakesNothing(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	client := startServer(t).client(t)
	s := newStore(t, client, Config{Mode: Coalesced})
	table := open(t, s, "t")
	for name, l := range kinds(100, time.Hour) {
		id, err := table.Plan(l)
		require.NoError(t, err)
		take(t, table, name, l, 10)
		require.NoError(t, client.Do(ctx, "client", "pause", "400").Err())
		var wg sync.WaitGroup
		for range 20 { // one is under way when the rest comes
			wg.Go(func() {
				short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
				defer cancel()
				_, err := table.Apply(short, name, id, ratelimit.Op{Cost: 1})
				if err == nil {
					t.Error("answered by a server that was paused")
				}
			})
		}
		wg.Wait()
		require.Eventually(t, func() bool { return take(t, table, name, l, 0).Remaining == 90 }, 10*time.Second, 10*time.Millisecond, name)
	}
}

func TestCloseEndsThoseWhoWait(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	client := startServer(t).client(t)
	s := newStore(t, client, Config{Mode: Coalesced})
	table := open(t, s, "t")
	take(t, table, "k", ratelimit.PerHour(10), 1)
	require.NoError(t, client.Do(ctx, "client", "pause", "2000").Err())
	errs := make(chan error, 20)
	call := func() {
		_, err := table.Apply(ctx, "k", 1, ratelimit.Op{Cost: 1})
		errs <- err
	}
	l := s.laneOf(keyName(keyPrefix(DefaultPrefix, "t"), "k", false))
	stands := func(queued int) func() bool {
		return func() bool {
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.busy && len(l.queue) == queued
		}
	}
	go call()
	require.Eventually(t, stands(0), 10*time.Second, time.Millisecond) // it is under way
	for range cap(errs) - 1 {
		go call()
	}
	require.Eventually(t, stands(cap(errs)-1), 10*time.Second, time.Millisecond)
	require.NoError(t, s.Close())
	ended := 0
	for range cap(errs) {
		if err := <-errs; err != nil {
			require.ErrorIs(t, err, ratelimit.ErrClosed)
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
	l := ratelimit.Bucket(100, time.Hour, 100)
	take(t, table, "k", l, 1)
	id, err := table.Plan(l)
	require.NoError(t, err)
	require.NoError(t, client.ConfigResetStat(ctx).Err())
	require.NoError(t, client.Do(ctx, "client", "pause", "500").Err())
	var wg sync.WaitGroup
	var mu sync.Mutex
	left := map[int64]bool{}
	for range 150 {
		wg.Go(func() {
			r, err := table.Apply(ctx, "k", id, ratelimit.Op{Cost: 1})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			} else if r.Allowed {
				left[r.Remaining] = true
			}
		})
	}
	wg.Wait()
	require.Len(t, left, 99, "each was granted another one")
	stats := client.Info(ctx, "commandstats").Val()
	require.Regexp(t, `cmdstat_evalsha:calls=[1-9],`, stats)
}

// TestABatchKeepsTheOrderOfAKey: whatever scripts decide, what one key is asked is asked in the
// order of the calls, and side by side where one script does.
func TestABatchKeepsTheOrderOfAKey(t *testing.T) {
	t.Parallel()
	bucket, window, decide := bucketScript(), windowScript(), decideScript(algBucket)
	for _, single := range []bool{true, false} {
		l := &lane{store: &Store{single: single}}
		rng := rand.New(rand.NewPCG(1, 1)) //nolint:gosec // a test is repeated by its seed
		for range 200 {
			var batch []*item
			calls := map[string][]*item{}
			for i := range rng.IntN(maxBatch) {
				req := &request{args: []any{i}, key: strconv.Itoa(rng.IntN(20)), script: bucket, width: 2}
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
			flights := l.flights(batch)
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
