package redisstore

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
)

func TestLeaseConformance(t *testing.T) {
	t.Parallel()
	conforms(t, Config{Mode: Lease})
}

// TestLeasesOfProcesses: no more is granted in total than the limit; what the processes have taken in advance at their end is there for
// others, except that of a process which was killed.
func TestLeasesOfProcesses(t *testing.T) {
	t.Parallel()
	client := startServer(t).client(t)
	const limit, processes, callers, most = 1000, 4, 8, 40
	for name, l := range kinds(limit, 1000*time.Hour) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var granted atomic.Int64
			var all sync.WaitGroup
			var stores []*Store
			for range processes {
				s := newStore(t, client, Config{Mode: Lease, MaxLease: most, Prefix: name})
				stores = append(stores, s)
				table := open(t, s, "t")
				id := planned(t, table, l)
				for range callers {
					all.Go(func() {
						for range limit * 8 / 10 / processes / callers {
							if r, err := table.Apply(t.Context(), "k", id, limits.Op{Cost: 1}); err != nil {
								t.Error(err)
							} else if r.Allowed {
								granted.Add(1)
							}
						}
					})
				}
			}
			all.Wait()
			require.EqualValues(t, limit*8/10, granted.Load(), "there is enough for all")
			leased := int64(0)
			for _, s := range stores {
				leased += int64(s.Stats().Leased)
			}
			require.Greater(t, leased, granted.Load()/2)
			for _, s := range stores[1:] { // the first is killed
				require.NoError(t, s.Close())
			}
			rest := take(t, open(t, newStore(t, client, Config{Prefix: name}), "t"), "k", l, 0).Remaining
			require.LessOrEqual(t, granted.Load()+rest, int64(limit))
			require.GreaterOrEqual(t, granted.Load()+rest, int64(limit-most))
		})
	}
}

const leaseChildEnv = "GRESIL_LEASE_TEST"

// leaseChild is a process that takes as much of a key as it gets, until its input ends, and prints the time of each take.
func leaseChild(addr string) {
	client := redis.NewClient(&redis.Options{Addr: addr})
	store := core.Must(New(client, Config{Mode: Lease, MaxLease: childLease, Timeout: patient}))
	limiter := core.Must(ratelimit.New(ratelimit.Config{
		Name: "t", Limit: ratelimit.SlidingLog(childLimit, time.Second), Store: store, OnStoreError: ratelimit.Deny,
	}))
	var over atomic.Bool
	var mu sync.Mutex
	var all sync.WaitGroup
	for range childCallers {
		all.Go(func() {
			for !over.Load() {
				if r, err := limiter.Take(context.Background(), "k", 1); err == nil && r.Allowed {
					mu.Lock()
					fmt.Println(time.Now().UnixMicro())
					mu.Unlock()
				} else {
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	over.Store(true)
	all.Wait()
	_ = store.Close()
}

const childLimit, childLease, childCallers = 500, 20, 4

// TestLeasesOfKilledProcesses: in any second, no more is granted than the limit and what the processes can have taken in advance, also
// after one of them is killed; and the others go on.
func TestLeasesOfKilledProcesses(t *testing.T) {
	t.Parallel()
	const processes = 4
	srv := startServer(t)
	var all []int64
	var mu sync.Mutex
	var readers sync.WaitGroup
	var children []*exec.Cmd
	var inputs []io.Closer
	for range processes {
		child := exec.CommandContext(t.Context(), os.Args[0]) //nolint:gosec // this test
		child.Env = append(os.Environ(), leaseChildEnv+"="+srv.Addr)
		in, err := child.StdinPipe()
		require.NoError(t, err)
		out, err := child.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, child.Start())
		children, inputs = append(children, child), append(inputs, in)
		readers.Go(func() {
			for lines := bufio.NewScanner(out); lines.Scan(); {
				at, err := strconv.ParseInt(lines.Text(), 10, 64)
				mu.Lock()
				if err == nil { // the last line of a killed process can be cut
					all = append(all, at)
				}
				mu.Unlock()
			}
		})
	}
	granted := func() int { mu.Lock(); defer mu.Unlock(); return len(all) }
	require.Eventually(t, func() bool { return granted() > 3*childLimit/2 }, 60*time.Second, 10*time.Millisecond)
	require.NoError(t, children[0].Process.Kill())
	before := granted()
	require.Eventually(t, func() bool { return granted() > before+3*childLimit/2 }, 60*time.Second, 10*time.Millisecond)
	for _, in := range inputs {
		_ = in.Close()
	}
	readers.Wait()
	for i, child := range children {
		if err := child.Wait(); i > 0 {
			require.NoError(t, err)
		}
	}
	slices.Sort(all)
	most, from := 0, 0
	for i, at := range all {
		for at-all[from] >= 1_000_000 {
			from++
		}
		most = max(most, i-from+1)
	}
	t.Logf("at most %d in a second of %d", most, childLimit)
	require.LessOrEqual(t, most, childLimit+processes*(childLease+childCallers)) // each caller can be late with one
	require.GreaterOrEqual(t, most, childLimit*8/10)
}

// hotLease returns a table and a plan in a bubble, and takes so many permits of "k" that others have been taken in advance. The limit is
// an hour's, so that nothing recovers meanwhile.
func hotLease(t *testing.T, srv server, l ratelimit.Limit) (limits.Table, *limits.Plan, int64) {
	t.Helper()
	s := storeInBubble(t, srv, Config{Mode: Lease, MaxLease: 20, Prefix: strings.ReplaceAll(t.Name()[len("TestLeaseOfAKey/"):], "/", ".")})
	require.True(t, s.beat(t.Context())) // before that, the number of processes is not known
	tab := open(t, s, "t")
	id := planned(t, tab, l)
	for range hotTakes + 1 {
		require.True(t, take(t, tab, "k", l, 1).Allowed)
	}
	e := tab.(*table).leases.find("k") //nolint:forcetypeassert // it is one of ours
	require.NotNil(t, e)
	e.mu.Lock()
	defer e.mu.Unlock()
	require.Positive(t, e.left)
	return tab, id, e.left
}

func (l *leases) find(key string) *lease {
	for i := range l.shards {
		if e := l.shards[i].of[key]; e != nil {
			return e
		}
	}
	return nil
}

func TestLeaseOfAKey(t *testing.T) {
	t.Parallel()
	srv, hour := startServer(t), ratelimit.TokenBucket(1000, 10_000*time.Hour, 1000)
	for name, test := range map[string]func(*testing.T){
		"is given back": func(t *testing.T) {
			t.Helper()
			tab, _, left := hotLease(t, srv, hour)
			require.EqualValues(t, 1000-hotTakes-1, take(t, tab, "k", hour, 0).Remaining, "what this process has taken is available to it")
			strict := open(t, storeInBubble(t, srv, Config{Prefix: strings.ReplaceAll(t.Name()[len("TestLeaseOfAKey/"):], "/", ".")}), "t")
			require.EqualValues(t, 1000-hotTakes-1-left, take(t, strict, "k", hour, 0).Remaining)
			time.Sleep(3 * leaseSpan)
			synctest.Wait()
			require.EqualValues(t, 1000-hotTakes-1, take(t, strict, "k", hour, 0).Remaining)
			require.Nil(t, tab.(*table).leases.find("k"), "a key that is not used takes no memory") //nolint:forcetypeassert // it is one of ours
		},
		"of another limit": func(t *testing.T) {
			t.Helper()
			tab, _, _ := hotLease(t, srv, hour)
			other := ratelimit.TokenBucket(500, 10_000*time.Hour, 500)
			require.True(t, take(t, tab, "k", other, 1).Allowed)
			synctest.Wait()
			require.EqualValues(t, 500-hotTakes-2, take(t, tab, "k", other, 0).Remaining)
		},
		"refunded": func(t *testing.T) {
			t.Helper()
			tab, id, _ := hotLease(t, srv, hour)
			for range 3 {
				r := take(t, tab, "k", hour, 1)
				back, err := tab.Apply(t.Context(), "k", id, limits.Op{Kind: limits.Refund, Cost: 1, Receipt: r.Receipt})
				require.NoError(t, err)
				require.Equal(t, r.Remaining+1, back.Remaining)
			}
			time.Sleep(3 * leaseSpan)
			synctest.Wait()
			strict := open(t, storeInBubble(t, srv, Config{Prefix: strings.ReplaceAll(t.Name()[len("TestLeaseOfAKey/"):], "/", ".")}), "t")
			require.EqualValues(t, 1000-hotTakes-1, take(t, strict, "k", hour, 0).Remaining)
		},
		"refunded when its window is over": func(t *testing.T) {
			t.Helper()
			l := ratelimit.FixedWindow(1000, 10*time.Second)
			tab, id, _ := hotLease(t, srv, l)
			time.Sleep(leaseSpan / 2)
			for range 15 { // one in each span: so rarely that none is taken in advance
				time.Sleep(leaseSpan)
				require.True(t, take(t, tab, "k", l, 1).Allowed)
			}
			left := take(t, tab, "k", l, 0).Remaining
			old := tab.(*table).leases.find("k").grant.Receipt //nolint:forcetypeassert // it is one of ours
			_, err := tab.Apply(t.Context(), "k", id, limits.Op{Kind: limits.Refund, Cost: 1, Receipt: old})
			require.NoError(t, err)
			require.Equal(t, left, take(t, tab, "k", l, 0).Remaining)
		},
		"of a small limit": func(t *testing.T) {
			t.Helper()
			_, _, left := hotLease(t, srv, ratelimit.TokenBucket(24, 24*time.Hour, 24))
			require.EqualValues(t, 24/leaseShare-1, left)
		},
		"drained": func(t *testing.T) {
			t.Helper()
			tab, id, left := hotLease(t, srv, hour)
			r, err := tab.Apply(t.Context(), "k", id, limits.Op{Kind: limits.Drain})
			require.NoError(t, err)
			require.EqualValues(t, 1000-hotTakes-1-left, r.Permits)
			require.False(t, take(t, tab, "k", hour, 1).Allowed)
		},
		"before the processes are counted": func(t *testing.T) {
			t.Helper()
			s := storeInBubble(t, srv, Config{Mode: Lease, Prefix: strings.ReplaceAll(t.Name()[len("TestLeaseOfAKey/"):], "/", ".")})
			s.keeping.Do(func() {}) // no beats, as without the rights for them
			tab := open(t, s, "t")
			for range 3 * hotTakes {
				take(t, tab, "k", hour, 1)
			}
			require.Zero(t, s.Stats().Leased)
		},
		"of two limits at once": func(t *testing.T) {
			t.Helper()
			tab, _, _ := hotLease(t, srv, hour)
			other := ratelimit.TokenBucket(2000, 10_000*time.Hour, 2000)
			for range 10 {
				require.True(t, take(t, tab, "k", hour, 1).Allowed)
				require.True(t, take(t, tab, "k", other, 1).Allowed)
			}
			require.GreaterOrEqual(t, take(t, tab, "k", hour, 0).Remaining, int64(1000-hotTakes-21-20))
		},
		"after a reset": func(t *testing.T) {
			t.Helper()
			tab, id, _ := hotLease(t, srv, hour)
			_, err := tab.Apply(t.Context(), "k", id, limits.Op{Kind: limits.Reset})
			require.NoError(t, err)
			require.EqualValues(t, 1000, take(t, tab, "k", hour, 0).Remaining)
		},
		"refuses": func(t *testing.T) {
			t.Helper()
			l := ratelimit.TokenBucket(20, 20*time.Hour, 20)
			tab, id, _ := hotLease(t, srv, l)
			var last limits.Result
			for range 20 - hotTakes - 1 {
				last = take(t, tab, "k", l, 1)
				require.True(t, last.Allowed)
			}
			require.Zero(t, last.Remaining)
			r := take(t, tab, "k", l, 1)
			require.False(t, r.Allowed)
			require.InDelta(t, time.Hour, r.RetryAfter, float64(time.Millisecond))
			sent := tab.(*table).store.Stats().Sent //nolint:forcetypeassert // it is one of ours
			time.Sleep(leaseWait / 2)
			for range 100 {
				again := take(t, tab, "k", l, 1)
				require.False(t, again.Allowed)
				require.InDelta(t, r.RetryAfter-leaseWait/2, again.RetryAfter, float64(time.Millisecond))
			}
			require.Equal(t, sent, tab.(*table).store.Stats().Sent, "without the server") //nolint:forcetypeassert // it is one of ours
			require.False(t, take(t, tab, "k", l, 2).Allowed)
			require.Greater(t, take(t, tab, "k", l, 2).RetryAfter, time.Hour, "a higher cost waits longer")
			_, err := tab.Apply(t.Context(), "k", id, limits.Op{Kind: limits.Refund, Cost: 1, Receipt: last.Receipt})
			require.NoError(t, err)
			require.True(t, take(t, tab, "k", l, 1).Allowed, "a refund ends the refusal")
			require.False(t, take(t, tab, "k", l, 1).Allowed)
			time.Sleep(time.Hour)
			require.True(t, take(t, tab, "k", l, 1).Allowed)
		},
		"of costs": func(t *testing.T) {
			t.Helper()
			l := ratelimit.TokenBucket(200, 10_000*time.Hour, 200)
			tab, _, _ := hotLease(t, srv, l)
			left := int64(200 - hotTakes - 1)
			for i := int64(1); left > 0; i = i%7 + 1 {
				r := take(t, tab, "k", l, i)
				require.Equal(t, left >= i, r.Allowed, "%d of %d", i, left)
				if r.Allowed {
					left -= i
				}
				require.Equal(t, left, r.Remaining, "after %d", i)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, test)
		})
	}
}

// TestLeaseWithoutServer: all takes of a key fail with the one that takes in advance, and none takes longer than Timeout.
func TestLeaseWithoutServer(t *testing.T) {
	t.Parallel()
	client := startServer(t).client(t)
	l := ratelimit.PerHour(1_000_000)
	s := newStore(t, client, Config{Mode: Lease, MaxLease: 2, Timeout: time.Second})
	table := open(t, s, "t")
	id := planned(t, table, l)
	for range 3 * hotTakes {
		take(t, table, "k", l, 1)
	}
	require.NoError(t, client.Do(t.Context(), "client", "pause", "9000", "all").Err())
	begun := time.Now()
	var all sync.WaitGroup
	var failed atomic.Int64
	for range 64 {
		all.Go(func() {
			if _, err := table.Apply(context.Background(), "k", id, limits.Op{Cost: 1}); err != nil {
				failed.Add(1)
			}
		})
	}
	all.Wait()
	require.GreaterOrEqual(t, failed.Load(), int64(62))
	require.Less(t, time.Since(begun), 8*time.Second, "not one after the other")
}

// TestManyRareKeysAreNotHot, though they share the counters.
func TestManyRareKeysAreNotHot(t *testing.T) {
	t.Parallel()
	l, rng, hot := newLeases(nil), rand.New(rand.NewPCG(1, 1)), 0 //nolint:gosec // a test is repeated by its seed
	for range 1_000_000 {
		if l.hot(rng.Uint64(), 0) {
			hot++
		}
	}
	require.Less(t, hot, 10)
	busy := false
	for range 10_000 { // one key among others
		for range 8 {
			l.hot(rng.Uint64(), leaseSpan)
		}
		busy = busy || l.hot(1<<40, leaseSpan)
	}
	require.True(t, busy)
}

// TestColdKeysHaveNoLease: they take no memory, and cost what they cost in the other modes.
func TestColdKeysHaveNoLease(t *testing.T) {
	t.Parallel()
	s := newStore(t, startServer(t).client(t), Config{Mode: Lease})
	tab := open(t, s, "t")
	for i := range 500 {
		take(t, tab, fmt.Sprint("k", i%250), ratelimit.PerHour(100), 1)
	}
	for i := range tab.(*table).leases.shards { //nolint:forcetypeassert // it is one of ours
		require.Empty(t, tab.(*table).leases.shards[i].of) //nolint:forcetypeassert // it is one of ours
	}
	require.Zero(t, s.Stats().Leased)
}
