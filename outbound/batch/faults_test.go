package batch_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/outbound/batch"
)

// 41
func TestKilledProcessesLoseNoRecord(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const records, kills = 3000, 50
		random := rand.New(rand.NewPCG(1, 41))
		v := newVendor[item]()
		v.latency = 700 * time.Millisecond
		store := batch.NewMemory()
		pacer := newPacer(t, 100)
		live := func() (kill func()) {
			var dead atomic.Bool
			gone := func(string) error {
				if dead.Load() {
					return errors.New("killed")
				}
				return nil
			}
			b, err := batch.New(batch.Config[item, string]{
				Method: "merge", MaxRecords: 10, Option: optionOf, Pacer: pacer, Concurrency: 8, Lease: 3 * time.Second,
				Store: &proxy{Store: store, before: gone, after: gone},
				Send: func(ctx context.Context, option string, records []item) ([]batch.Result[string], error) {
					if dead.Load() {
						return nil, errors.New("killed before")
					}
					return v.send(ctx, option, records)
				},
			})
			require.NoError(t, err)
			stop := run(t, b)
			return func() {
				dead.Store(true)
				go stop()
			}
		}
		var processes []func()
		for range 4 {
			processes = append(processes, live())
		}
		adder, err := batch.New(batch.Config[item, string]{Method: "merge", Option: optionOf, Store: store, Send: v.send}) // it sends nothing
		require.NoError(t, err)
		for i := range records {
			add(t, adder, item{fmt.Sprint(i % 7), i})
		}
		require.NoError(t, adder.Flush(t.Context()))
		for range kills {
			time.Sleep(time.Duration(random.IntN(7000)) * time.Millisecond)
			i := random.IntN(len(processes))
			processes[i]()
			processes[i] = live()
		}
		require.NoError(t, adder.Drain(t.Context()), "nothing was added since")
		seen, keysOf := map[int]int{}, map[int]map[string]bool{}
		for _, c := range v.seen() {
			for _, r := range c.records {
				seen[r.N]++
				if keysOf[r.N] == nil {
					keysOf[r.N] = map[string]bool{}
				}
				keysOf[r.N][c.key] = true
			}
		}
		require.Len(t, seen, records, "each record has arrived")
		twice := 0
		for n, keys := range keysOf {
			require.Len(t, keys, 1, "all calls with record %d have one key", n)
			if seen[n] > 1 {
				twice++
			}
		}
		groups, err := adder.Groups(t.Context())
		require.NoError(t, err)
		require.Empty(t, groups, "none has failed")
		require.Positive(t, twice, "some were killed between call and settlement")
		require.LessOrEqual(t, most(v.seen(), time.Minute), 100)
	})
}

// mortal makes a batcher whose process ends, as by a kill, when a call has the poison: its store is gone, and
// the call does not return. The next process begins at once.
func mortal(t *testing.T, v *vendor[int], store batch.Store, cfg batch.Config[int, string], poison int) (deaths func() int) {
	t.Helper()
	cfg.Method, cfg.Lease = "m", 3*time.Second
	ended, over := make(chan struct{}), make(chan struct{})
	var n atomic.Int64
	live := func() {
		var dead atomic.Bool
		gone := func(string) error {
			if dead.Load() {
				return errors.New("the process has ended")
			}
			return nil
		}
		cfg := cfg
		cfg.Store = &proxy{Store: store, before: gone, after: gone}
		cfg.Send = func(ctx context.Context, option string, records []int) ([]batch.Result[string], error) {
			if slices.Contains(records, poison) {
				time.Sleep(time.Second / 10) // others have begun meanwhile
				if !dead.Swap(true) {
					ended <- struct{}{}
				}
			}
			time.Sleep(time.Second)
			if dead.Load() {
				return nil, errors.New("the process has ended")
			}
			return v.send(ctx, option, records)
		}
		b, err := batch.New(cfg)
		require.NoError(t, err)
		run(t, b)
	}
	live()
	go func() {
		for {
			select {
			case <-ended:
				n.Add(1)
				live()
			case <-over:
				return
			}
		}
	}()
	t.Cleanup(func() { close(over) })
	return func() int { return int(n.Load()) }
}

// A record that ends each process with it takes no other one with it, and fails.
func TestPoisonRecord(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cfg    batch.Config[int, string]
		deaths int // at most
		calls  int // at most, of those that return
	}{
		"one batch":                 {batch.Config[int, string]{MaxRecords: 20}, 10, 6},
		"two batches":               {batch.Config[int, string]{MaxRecords: 10, Concurrency: 4}, 9, 6},
		"several batches":           {batch.Config[int, string]{MaxRecords: 6}, 9, 9},
		"records beside the poison": {batch.Config[int, string]{MaxRecords: 1, Concurrency: 20}, 5, 19},
		"one attempt":               {batch.Config[int, string]{MaxRecords: 20, MaxAttempts: 1}, 8, 6},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				v, store := newVendor[int](), batch.NewMemory()
				var failures []batch.Info
				c.cfg.Hooks.Failed = func(_ context.Context, info batch.Info) { failures = append(failures, info) }
				b, err := batch.New(batch.Config[int, string]{Method: "m", Store: store, Send: v.send}) // it sends nothing
				require.NoError(t, err)
				add(t, b, numbers(0, 20)...)
				require.NoError(t, b.Flush(t.Context()))
				deaths := mortal(t, v, store, c.cfg, 13)
				for range 100 {
					time.Sleep(10 * time.Second)
				}
				seen := map[int]bool{}
				for _, c := range v.seen() {
					for _, r := range c.records {
						seen[r] = true
					}
				}
				require.Len(t, seen, 19, "after %d ends", deaths())
				require.False(t, seen[13])
				require.LessOrEqual(t, deaths(), c.deaths)
				require.LessOrEqual(t, len(v.seen()), c.calls, "a batch that only waited was halved")
				require.Len(t, failures, 1)
				require.Equal(t, 1, failures[0].Records)
				require.ErrorContains(t, failures[0].Err, "processes ended, or lost the store, during a call with the record")
				groups, err := b.Groups(t.Context())
				require.NoError(t, err)
				require.Len(t, groups, 1)
				require.Equal(t, 1, groups[0].Failed)
				require.Equal(t, failures[0].Err.Error(), groups[0].LastError)
				n, err := b.Retry(t.Context(), "")
				require.NoError(t, err)
				require.Equal(t, 1, n)
			})
		})
	}
}

func TestAStoreThatFailsNowAndThenLosesNothing(t *testing.T) {
	t.Parallel()
	for _, lost := range []bool{false, true} { // the operation, or its reply
		t.Run(fmt.Sprint("reply lost: ", lost), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(2, 7))
				var mu sync.Mutex
				failures := map[string]int{}
				fail := func(operation string) error {
					mu.Lock()
					defer mu.Unlock()
					if operation == "Add" || operation == "Flush" || random.IntN(3) > 0 {
						return nil
					}
					failures[operation]++
					return errors.New("connection reset")
				}
				p := &proxy{Store: batch.NewMemory(), before: fail}
				if lost {
					p.before, p.after = nil, fail
				}
				v := newVendor[int]()
				v.latency = 5 * time.Second
				var failed, recovered atomic.Int64
				b := start(t, batch.Config[int, string]{MaxRecords: 10, Send: v.send, Store: p, Lease: 3 * time.Second, Hooks: batch.Hooks{
					StoreFailed: func(_ context.Context, info batch.Info) {
						failed.Add(1)
						if !errors.Is(info.Err, batch.ErrStore) || !strings.Contains(info.Err.Error(), "connection reset") {
							t.Error(info.Err)
						}
					},
					StoreRecovered: func(context.Context, batch.Info) { recovered.Add(1) },
				}})
				add(t, b, numbers(0, 1000)...)
				for err := b.Drain(t.Context()); err != nil; err = b.Drain(t.Context()) {
					require.ErrorIs(t, err, batch.ErrStore)
				}
				records, keys := map[int]bool{}, map[string]string{}
				for _, c := range v.seen() {
					for _, r := range c.records {
						records[r] = true
					}
					content := fmt.Sprint(c.records)
					require.Contains(t, []string{"", content}, keys[c.key], "one key, one set of records")
					keys[c.key] = content
				}
				require.Len(t, records, 1000)
				require.Len(t, keys, 100)
				mu.Lock()
				defer mu.Unlock()
				for _, operation := range []string{"Ready", "Lease", "Extend", "Settle"} {
					require.Positive(t, failures[operation], operation)
				}
				require.Positive(t, failed.Load())
				require.Positive(t, recovered.Load())
			})
		})
	}
}

func TestASendThatMisbehavesLosesNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		send func(ctx context.Context, records []int) ([]batch.Result[string], error)
		err  string
	}{
		"too few results": {func(_ context.Context, records []int) ([]batch.Result[string], error) {
			return make([]batch.Result[string], len(records)-1), nil
		}, "batch: Send returned 9 results for 10 records"},
		"too many results": {func(_ context.Context, records []int) ([]batch.Result[string], error) {
			return make([]batch.Result[string], len(records)+1), nil
		}, "batch: Send returned 11 results for 10 records"},
		"no results": {func(context.Context, []int) ([]batch.Result[string], error) {
			return nil, nil
		}, "batch: Send returned 0 results for 10 records"},
		"panic":             {func(context.Context, []int) ([]batch.Result[string], error) { panic("oh") }, "batch: Send panicked: oh"},
		"panic of an error": {func(context.Context, []int) ([]batch.Result[string], error) { panic(errors.New("ouch")) }, "batch: Send panicked: ouch"},
		"panic of a value":  {func(context.Context, []int) ([]batch.Result[string], error) { panic(7) }, "batch: Send panicked: a value of type int"},
		"goexit": {func(context.Context, []int) ([]batch.Result[string], error) {
			runtime.Goexit()
			return nil, nil
		}, "batch: Send ended its goroutine"},
		"slow": {func(ctx context.Context, _ []int) ([]batch.Result[string], error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}, "batch: the call took longer than its Timeout, 1m0s"},
		"never returns": {func(context.Context, []int) ([]batch.Result[string], error) {
			time.Sleep(24 * time.Hour)
			return nil, nil
		}, "batch: Send has not returned 1s after its Timeout, 1m0s"},
		"empty error": {func(context.Context, []int) ([]batch.Result[string], error) {
			return nil, errors.New("")
		}, "batch: an error without a text"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var bad atomic.Bool
				bad.Store(true)
				v := newVendor[int]()
				var mu sync.Mutex
				var failed []string
				b := start(t, batch.Config[int, string]{
					MaxAttempts: 3, Backoff: backoff.Constant{Delay: time.Second},
					Send: func(ctx context.Context, option string, records []int) ([]batch.Result[string], error) {
						if bad.Load() {
							return c.send(ctx, records)
						}
						return v.send(ctx, option, records)
					},
					Hooks: batch.Hooks{Failed: func(_ context.Context, info batch.Info) {
						mu.Lock()
						defer mu.Unlock()
						failed = append(failed, info.IDs...)
					}},
				})
				var ids []string
				for i := range 10 {
					id, err := b.Add(t.Context(), i)
					require.NoError(t, err)
					ids = append(ids, id)
				}
				require.NoError(t, b.Flush(t.Context()))
				time.Sleep(time.Hour)
				mu.Lock()
				require.Equal(t, ids, failed)
				mu.Unlock()
				require.EqualValues(t, 3, b.Stats().Calls)
				require.EqualValues(t, 20, b.Stats().Retried)
				groups, err := b.Groups(t.Context())
				require.NoError(t, err)
				require.Equal(t, 10, groups[0].Failed)
				require.Equal(t, c.err, groups[0].LastError)
				bad.Store(false)
				n, err := b.Retry(t.Context(), "")
				require.NoError(t, err)
				require.Equal(t, 10, n)
				drain(t, b)
				require.Equal(t, numbers(0, 10), v.seen()[0].records)
				time.Sleep(24 * time.Hour) // Sends that were abandoned
			})
		})
	}
}

func TestALostReplyOfALeaseDelaysNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var leases int
		v := newVendor[int]()
		b := start(t, batch.Config[int, string]{Send: v.send, Lease: time.Hour, Store: &proxy{Store: batch.NewMemory(), after: func(operation string) error {
			if operation == "Lease" {
				if leases++; leases == 1 {
					return errors.New("reset")
				}
			}
			return nil
		}}})
		add(t, b, 1, 2, 3)
		drain(t, b)
		require.Len(t, v.seen(), 1)
		require.Less(t, time.Since(v.start), time.Second)
	})
}

func TestACallCostsOneLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		operations := map[string]int{}
		v := newVendor[int]()
		b := start(t, batch.Config[int, string]{Send: v.send, MaxRecords: 1, Concurrency: 50, Store: &proxy{Store: batch.NewMemory(), before: func(operation string) error {
			mu.Lock()
			defer mu.Unlock()
			operations[operation]++
			return nil
		}}})
		add(t, b, numbers(0, 40)...)
		require.NoError(t, b.Flush(t.Context()))
		synctest.Wait()
		mu.Lock()
		require.Equal(t, 40, operations["Lease"])
		require.Equal(t, 40, operations["Settle"])
		require.LessOrEqual(t, operations["Ready"], 5)
		mu.Unlock()
		drain(t, b)
	})
}

func TestHooksThatPanicChangeNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		boom := func(context.Context, batch.Info) { panic("hook") }
		v := newVendor[int]()
		v.answer = func(int, call[int]) ([]batch.Result[string], error) { return nil, core.Permanent(errors.New("no")) }
		b := start(t, batch.Config[int, string]{Send: v.send, Hooks: batch.Hooks{
			Called: boom, Failed: boom, Redelivered: boom, StoreFailed: boom, StoreRecovered: boom,
		}})
		add(t, b, 1, 2)
		drain(t, b)
		require.Len(t, v.seen(), 3)
		require.EqualValues(t, 5, b.Stats().HookPanics)
	})
}

// A process that stands still for longer than its lease sends nothing of it.
func TestABatchWhoseLeaseIsOverIsNotSent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var leases atomic.Int64
		store := batch.NewMemory()
		p := &proxy{Store: store, after: func(operation string) error {
			if operation == "Lease" && leases.Add(1) == 1 {
				time.Sleep(time.Minute) // longer than the lease
			}
			return nil
		}}
		v := newVendor[int]()
		cfg := batch.Config[int, string]{Send: v.send, Store: p, Method: "m"}
		stalled := start(t, cfg)
		add(t, stalled, 1, 2, 3)
		require.NoError(t, stalled.Flush(t.Context()))
		time.Sleep(time.Second)
		var redelivered []batch.Info
		cfg.Store, cfg.Name = store, "other"
		cfg.Hooks.Redelivered = func(_ context.Context, info batch.Info) { redelivered = append(redelivered, info) }
		other := start(t, cfg)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		require.Len(t, v.seen(), 1)
		require.Equal(t, []batch.Info{{Name: "other", Method: "m", Key: v.seen()[0].key, Records: 3}}, redelivered)
		require.EqualValues(t, 1, stalled.Stats().LeasesLost)
		require.EqualValues(t, 3, other.Stats().Sent)
		require.EqualValues(t, 1, other.Stats().Redelivered)
	})
}

func TestALongCallKeepsItsLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := batch.NewMemory()
		v := newVendor[int]()
		v.latency = 2 * time.Minute
		cfg := batch.Config[int, string]{Send: v.send, Store: store, Method: "m", Timeout: time.Hour, Lease: 5 * time.Second}
		a, b := start(t, cfg), start(t, cfg)
		add(t, a, 1, 2, 3)
		require.NoError(t, a.Drain(t.Context()))
		require.Len(t, v.seen(), 1)
		require.EqualValues(t, 3, a.Stats().Sent+b.Stats().Sent)
	})
}

func TestARecordThatCannotBeDecodedFailsAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := batch.NewMemory()
		other, err := batch.New(batch.Config[string, string]{Method: "m", Store: store, Send: newVendor[string]().send})
		require.NoError(t, err)
		v := newVendor[int]()
		b := start(t, batch.Config[int, string]{Method: "m", Store: store, Send: v.send})
		add(t, b, 1)
		var failure error
		go func() { _, failure = other.Call(t.Context(), "x") }()
		synctest.Wait()
		add(t, b, 2)
		drain(t, b)
		synctest.Wait()
		require.Equal(t, []int{1, 2}, v.seen()[0].records)
		require.ErrorContains(t, failure, "the record cannot be decoded")
		require.EqualValues(t, 1, b.Stats().Failed)
	})
}
