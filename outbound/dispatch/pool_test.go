package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/outbound/dispatch"
)

// A server opens connections and records what happens to them.
type server struct {
	mu         sync.Mutex
	log        []string // "+a1" opened, "-a1" closed
	count      map[string]int
	open, most int
	sick       map[string]bool
}

func (s *server) dial(_ context.Context, key string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count == nil {
		s.count = map[string]int{}
	}
	s.count[key]++
	s.open++
	s.most = max(s.most, s.open)
	name := fmt.Sprintf("%s%d", key, s.count[key])
	s.log = append(s.log, "+"+name)
	return name, nil
}

func (s *server) close(_, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open--
	s.log = append(s.log, "-"+name)
}

func (s *server) healthy(_, name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.sick[name]
}

// news returns the log since the last news.
func (s *server) news() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	log := s.log
	s.log = nil
	return log
}

type pooled = dispatch.Dispatcher[string, string]

func newPooled(t *testing.T, capacity int, change func(*dispatch.Config[string, string])) (*pooled, *server) {
	t.Helper()
	s := &server{sick: map[string]bool{}}
	cfg := dispatch.Config[string, string]{Capacity: capacity, Dial: s.dial, Close: s.close, Healthy: s.healthy, Classify: classify}
	if change != nil {
		change(&cfg)
	}
	d, err := dispatch.New(cfg)
	require.NoError(t, err)
	return d, s
}

// use makes a call that takes a while, in its own goroutine, and returns when it waits or
// runs.
func use(t *testing.T, d *pooled, key string, took time.Duration) {
	t.Helper()
	go func() {
		_, err := dispatch.Do(t.Context(), d, key, func(ctx context.Context, conn string) (int, error) {
			if conn[:1] != key {
				t.Errorf("%q got %q", key, conn)
			}
			return 0, sleep(ctx, took)
		})
		if err != nil {
			t.Error(err)
		}
	}()
	synctest.Wait()
}

func TestTheOldestIdleConnectionMakesRoomForAnotherKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, s := newPooled(t, 3, nil)
		use(t, d, "a", 1*time.Second)
		use(t, d, "a", 2*time.Second)
		use(t, d, "b", 3*time.Second)
		time.Sleep(4 * time.Second)
		require.Equal(t, []string{"+a1", "+a2", "+b1"}, s.news())
		use(t, d, "c", time.Second)
		require.Equal(t, []string{"-a1", "+c1"}, s.news())
		use(t, d, "b", time.Second)
		use(t, d, "a", time.Second)
		require.Empty(t, s.news(), "idle ones of the same key")
		time.Sleep(2 * time.Second)
		require.Equal(t, 3, s.most)
		require.Equal(t, uint64(1), d.Stats().Evicted)
	})
}

func TestABusyPoolServesWaitersInTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var waiting, connected, returned atomic.Int64
		d, s := newPooled(t, 3, func(cfg *dispatch.Config[string, string]) {
			cfg.Hooks = dispatch.Hooks{
				Waiting: func(context.Context, dispatch.Info) { waiting.Add(1) },
				Connected: func(_ context.Context, info dispatch.Info) {
					connected.Add(1)
					require.Positive(t, info.Waited)
				},
				Returned: func(context.Context, dispatch.Info) { returned.Add(1) },
			}
		})
		use(t, d, "a", 1*time.Second)
		use(t, d, "a", 2*time.Second)
		use(t, d, "b", 3*time.Second)
		s.news()
		use(t, d, "c", time.Minute)
		use(t, d, "a", time.Minute)
		use(t, d, "a", time.Minute)
		require.Equal(t, 3, d.Stats().Waiting)
		require.Empty(t, s.news())
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, []string{"-a1", "+c1"}, s.news(), "the first waiter, though another has the key")
		time.Sleep(time.Second)
		synctest.Wait()
		require.Empty(t, s.news(), "the second one has the key")
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, []string{"-b1", "+a3"}, s.news())
		time.Sleep(time.Hour)
		require.Equal(t, []int64{3, 3, 6}, []int64{waiting.Load(), connected.Load(), returned.Load()})
		require.Equal(t, 3, s.most)
	})
}

func TestADialThatFailsFreesItsPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		failure, fails := errors.New("refused"), true
		var s *server
		d, s := newPooled(t, 1, func(cfg *dispatch.Config[string, string]) {
			dial := cfg.Dial
			cfg.Dial = func(ctx context.Context, key string) (string, error) {
				if fails {
					return "", failure
				}
				return dial(ctx, key)
			}
		})
		_, err := dispatch.Do(t.Context(), d, "a", func(context.Context, string) (int, error) { return 0, nil })
		require.True(t, err == failure) //nolint:errorlint // it is what is tested
		require.Zero(t, d.Stats().Connections)
		fails = false
		use(t, d, "a", 0)
		require.Equal(t, []string{"+a1"}, s.news())
	})
}

func TestADialThatTheVendorLimitsIsAnAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		refused := 0
		d, _ := newPooled(t, 1, func(cfg *dispatch.Config[string, string]) {
			dial := cfg.Dial
			cfg.Dial = func(ctx context.Context, key string) (string, error) {
				if refused++; refused == 1 {
					return "", limited(15 * time.Second)
				}
				return dial(ctx, key)
			}
		})
		start := time.Now()
		_, err := dispatch.Do(t.Context(), d, "a", func(context.Context, string) (int, error) { return 0, nil })
		require.NoError(t, err)
		require.Equal(t, 15*time.Second+pad, time.Since(start))
	})
}

func TestADialThatNeverReturnsLosesNoPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		d, s := newPooled(t, 1, func(cfg *dispatch.Config[string, string]) {
			dial := cfg.Dial
			cfg.Dial = func(ctx context.Context, key string) (string, error) {
				if key == "h" {
					<-hang
				}
				return dial(ctx, key)
			}
		})
		start := time.Now()
		_, err := dispatch.Do(t.Context(), d, "h", func(context.Context, string) (int, error) { return 0, nil })
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.EqualError(t, err, "dispatch: default: no connection within 30s: context deadline exceeded")
		require.Equal(t, 30*time.Second, time.Since(start))
		use(t, d, "a", 0)
		require.Equal(t, []string{"+a1"}, s.news())
		close(hang)
		synctest.Wait()
		require.Equal(t, []string{"+h1", "-h1"}, s.news(), "it came too late")
	})
}

func TestSickAndIdleConnectionsAreClosedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, s := newPooled(t, 3, nil)
		use(t, d, "a", time.Second)
		use(t, d, "a", time.Second)
		use(t, d, "a", time.Second)
		time.Sleep(2 * time.Second)
		s.news()
		s.sick["a1"], s.sick["a2"] = true, true
		use(t, d, "a", time.Second)
		use(t, d, "a", time.Second)
		use(t, d, "a", time.Second)
		require.ElementsMatch(t, []string{"-a1", "-a2", "+a4", "+a5"}, s.news())
		time.Sleep(time.Second)
		synctest.Wait()
		time.Sleep(5*time.Minute - 1)
		require.Empty(t, s.news())
		time.Sleep(time.Second)
		synctest.Wait()
		require.Len(t, s.news(), 3)
		require.Zero(t, s.open)
		require.Zero(t, d.Stats().Connections)
		use(t, d, "a", time.Second)
		time.Sleep(time.Second)
		require.NoError(t, d.Close(t.Context()))
		require.Equal(t, []string{"+a6", "-a6"}, s.news())
	})
}

func TestNothingIsLostInAnyOrder(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			d, s := newPooled(t, 4, func(cfg *dispatch.Config[string, string]) {
				dial := cfg.Dial
				cfg.Account = func(key string) string { return key }
				cfg.Dial = func(ctx context.Context, key string) (string, error) {
					if err := sleep(ctx, 3*time.Millisecond); err != nil {
						return "", err
					}
					return dial(ctx, key)
				}
			})
			var running atomic.Int64
			var wg sync.WaitGroup
			for i := range 300 {
				time.Sleep(time.Duration(random.IntN(3)) * time.Millisecond)
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+random.IntN(5000))*time.Millisecond)
				kind, took, key := random.IntN(12), time.Duration(random.IntN(20))*time.Millisecond, string(rune('a'+i%6))
				wg.Go(func() {
					defer func() { _ = recover() }()
					defer cancel()
					_, _ = dispatch.Do(ctx, d, key, func(ctx context.Context, conn string) (int, error) {
						if running.Add(1) > 4 || conn[:1] != key {
							t.Errorf("%d run, %q got %q", running.Load(), key, conn)
						}
						defer running.Add(-1)
						if err := sleep(ctx, took); err != nil {
							return 0, err
						}
						switch kind {
						case 0:
							panic("told")
						case 1:
							return 0, &limitError{50 * time.Millisecond, dispatch.ScopeAccount}
						case 2:
							return 0, limited(100 * time.Millisecond)
						case 3:
							return 0, errors.New("500")
						}
						return 0, nil
					})
				})
			}
			wg.Wait()
			synctest.Wait()
			stats := d.Stats()
			require.Equal(t, uint64(300), stats.Succeeded+stats.Failed+stats.GaveUp+stats.Canceled)
			require.Positive(t, stats.Canceled)
			require.Positive(t, stats.Limited)
			require.Zero(t, stats.Active+stats.InFlight+stats.Waiting)
			require.Equal(t, stats.Idle, stats.Connections)
			require.Equal(t, s.open, stats.Idle)
			require.LessOrEqual(t, s.most, 4)
			require.NoError(t, d.Close(t.Context()))
			closed := map[string]int{}
			for _, event := range s.news() {
				closed[event]++
			}
			require.Zero(t, s.open)
			for event, n := range closed {
				require.Equal(t, 1, n, event)
			}
		})
	}
}

func TestCapacityChangesWhileCallsRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, s := newPooled(t, 1, nil)
		use(t, d, "a", time.Minute)
		use(t, d, "b", time.Minute)
		require.Equal(t, []string{"+a1"}, s.news())
		cfg := d.Config()
		cfg.Capacity = 3
		require.NoError(t, d.SetConfig(cfg))
		synctest.Wait()
		require.Equal(t, []string{"+b1"}, s.news())
		use(t, d, "c", time.Second)
		s.news()
		time.Sleep(2 * time.Second)
		cfg.Capacity = 1
		require.NoError(t, d.SetConfig(cfg))
		require.Equal(t, []string{"-c1"}, s.news())
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Len(t, s.news(), 1)
		require.Equal(t, 1, d.Stats().Connections)
	})
}

// TestAShorterIdleTimeAppliesToIdleConnections that were idle before it was set.
func TestAShorterIdleTimeAppliesToIdleConnections(t *testing.T) {
	t.Parallel()
	for _, before := range []time.Duration{-1, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			cfg := numbered{IdleTime: before, Dial: func(context.Context, string) (int, error) { return 1, nil }}
			d := core.Must(dispatch.New(cfg))
			_, err := dispatch.Do(t.Context(), d, "a", noop)
			require.NoError(t, err)
			time.Sleep(time.Second)
			cfg.IdleTime = time.Minute
			require.NoError(t, d.SetConfig(cfg))
			time.Sleep(59*time.Second + time.Millisecond)
			synctest.Wait()
			require.Zero(t, d.Stats().Connections, before)
		})
	}
}

// TestALowerCapacityIsNotExceededByAnotherKey while the connections beyond it are being closed.
func TestALowerCapacityIsNotExceededByAnotherKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := numbered{
			Capacity: 3, Dial: func(context.Context, string) (int, error) { return 1, nil },
			Close: func(string, int) { time.Sleep(time.Second) },
		}
		d := core.Must(dispatch.New(cfg))
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				_, _ = dispatch.Do(t.Context(), d, "a", func(context.Context, int) (int, error) { time.Sleep(time.Nanosecond); return 0, nil })
			})
		}
		wg.Wait()
		cfg.Capacity = 2
		wg.Go(func() { require.NoError(t, d.SetConfig(cfg)) })
		synctest.Wait()
		start := time.Now()
		_, err := dispatch.Do(t.Context(), d, "b", func(context.Context, int) (int, error) {
			require.Equal(t, 2*time.Second, time.Since(start), "one is closed for the Capacity, and then one for the key")
			return 0, nil
		})
		require.NoError(t, err)
		wg.Wait()
	})
}
