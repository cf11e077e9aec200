package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/redisserver"
)

// A wrapped is a client as one that measures.
type wrapped struct{ redis.UniversalClient }

func TestANilClientIsRefused(t *testing.T) {
	t.Parallel()
	for name, client := range map[string]redis.UniversalClient{
		"nil": nil, "ring": redis.NewRing(&redis.RingOptions{}), "wrapped": &wrapped{},
	} {
		s, err := New(client, Config{})
		require.Nil(t, s, name)
		require.ErrorIs(t, err, core.ErrConfig, name)
	}
}

// silent is where connections are taken and nothing is said.
func silent(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

var errCaller = errors.New("the caller has no time")

// TestTheDeadlineOfTheCallerIsNoFailureOfTheStore: the error is the cause of the context, whichever timer
// was first, and so the limiter does not let it pass.
func TestTheDeadlineOfTheCallerIsNoFailureOfTheStore(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, mode Mode) {
		t.Helper()
		proxy, client := startProxy(t)
		s := newStore(t, client, Config{Mode: mode})
		l, err := ratelimit.New(ratelimit.Config{Name: "l", Store: s, Limit: ratelimit.PerHour(1000)})
		require.NoError(t, err)
		_, err = l.Take(t.Context(), "k", 1)
		require.NoError(t, err)
		proxy.Delay(100 * time.Millisecond)
		var wg sync.WaitGroup
		for range 60 {
			wg.Go(func() {
				ctx, cancel := context.WithDeadlineCause(t.Context(), time.Now().Add(5*time.Millisecond), errCaller)
				defer cancel()
				r, err := l.Take(ctx, "k", 1)
				if !errors.Is(err, errCaller) || errors.Is(err, ratelimit.ErrStore) || r.Allowed {
					t.Errorf("%+v, %v", r, err)
				}
			})
		}
		wg.Wait()
		require.Zero(t, l.Stats().StoreErrors)
		require.Zero(t, s.Stats().Timeouts)
		require.Equal(t, breaker.Closed, s.first.guard.State())
	})
}

// TestAnExhaustedPoolIsNamed: other users of the client have all of its connections. That says nothing
// of the server.
func TestAnExhaustedPoolIsNamed(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*redis.Options){
		"waits":    func(o *redis.Options) { o.PoolSize, o.PipelinePoolSize = 2, -1 },
		"is short": func(o *redis.Options) { o.PoolSize, o.PoolTimeout, o.PipelinePoolSize = 2, 10*time.Millisecond, -1 },
		"refuses":  func(o *redis.Options) { o.PoolSize, o.MaxActiveConns, o.PipelinePoolSize = 2, 2, -1 },
	} {
		for _, before := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " ", before), func(t *testing.T) {
				t.Parallel()
				modes(t, func(t *testing.T, mode Mode) {
					t.Helper()
					client := startServer(t).client(t, change)
					s := newStore(t, client, Config{Mode: mode, Timeout: 100 * time.Millisecond})
					table := open(t, s, "t")
					id, err := table.Plan(limits.Limit(ratelimit.PerHour(1000)).Specs())
					require.NoError(t, err)
					if before {
						require.Eventually(t, func() bool {
							_, err := table.Apply(t.Context(), "k", id, limits.Op{Cost: 1})
							return err == nil
						}, patient, 10*time.Millisecond)
					}
					held, free := context.WithCancel(context.Background())
					defer free()
					for range 2 {
						conn := client.Conn()
						require.NoError(t, conn.Ping(held).Err())
						context.AfterFunc(held, func() { _ = conn.Close() })
					}
					for range failures + 2 {
						_, err := table.Apply(t.Context(), "k", id, limits.Op{Cost: 1})
						require.ErrorContains(t, err, "all connections of the client's pool are in use")
						require.True(t, noConnection(err), err)
					}
					require.Equal(t, breaker.Closed, s.first.guard.State())
					free()
					require.Eventually(t, func() bool {
						_, err := table.Apply(t.Context(), "k", id, limits.Op{Cost: 1})
						return err == nil
					}, patient, 10*time.Millisecond)
				})
			})
		}
	}
}

// TestCheckReportsATimeoutThatIsTooNear: the round trip is measured.
func TestCheckReportsATimeoutThatIsTooNear(t *testing.T) {
	t.Parallel()
	proxy, client := startProxy(t)
	proxy.Delay(40 * time.Millisecond)
	err := newStore(t, client, Config{Timeout: 100 * time.Millisecond}).Check(t.Context())
	require.ErrorContains(t, err, "the Timeout of 100ms is too near to the round trip")
	require.NoError(t, newStore(t, client, Config{Timeout: 2 * time.Second}).Check(t.Context()))
}

// TestNoConstructorWaitsForTheServer: an instance is counted from the first decision on.
func TestNoConstructorWaitsForTheServer(t *testing.T) {
	t.Parallel()
	s := newStore(t, server{&redisserver.Server{Addr: silent(t)}}.client(t), Config{Timeout: 200 * time.Millisecond})
	began := time.Now()
	l := localLimiter(t, s, ratelimit.PerHour(10))
	require.Less(t, time.Since(began), busy)
	require.False(t, beats(s), "it starts no goroutine")
	short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err := l.Take(short, "k", 1)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.True(t, beats(s))
}

// beats reports whether a store has begun to beat.
func beats(s *Store) bool {
	began := true
	s.keeping.Do(func() { began = false })
	return began
}

// TestCloseDoesNotWaitForAServerThatNeverAnswers: the goroutine that makes a connection ends by itself,
// within DialTimeout.
func TestCloseDoesNotWaitForAServerThatNeverAnswers(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, mode Mode) {
		t.Helper()
		s := newStore(t, server{&redisserver.Server{Addr: silent(t)}}.client(t), Config{Mode: mode, Timeout: 50 * time.Millisecond})
		l := localLimiter(t, s, ratelimit.PerHour(10))
		r, err := l.Take(t.Context(), "k", 1)
		require.NoError(t, err)
		require.True(t, r.Allowed, "by the share")
		began := time.Now()
		require.NoError(t, l.Config().Store.Close())
		require.Less(t, time.Since(began), busy)
	})
}

// A holdsPing is a hook in which PING waits for the end of its context.
type holdsPing struct{ begun, ended chan struct{} }

func (holdsPing) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h holdsPing) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		h.wait(ctx, cmds[0])
		return next(ctx, cmds)
	}
}

func (h holdsPing) wait(ctx context.Context, cmd redis.Cmder) {
	if cmd.Name() == "ping" {
		close(h.begun)
		<-ctx.Done()
		close(h.ended)
	}
}

func (h holdsPing) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		h.wait(ctx, cmd)
		return next(ctx, cmd)
	}
}

func TestCloseEndsTheConnectionsThatAreBeingMade(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, mode Mode) {
		t.Helper()
		client := server{&redisserver.Server{Addr: silent(t)}}.client(t, func(o *redis.Options) { o.ContextTimeoutEnabled = true })
		h := holdsPing{make(chan struct{}), make(chan struct{})}
		client.AddHook(h)
		s := newStore(t, client, Config{Mode: mode, Timeout: 20 * time.Millisecond})
		id, err := open(t, s, "t").Plan(limits.Limit(ratelimit.PerHour(1)).Specs())
		require.NoError(t, err)
		_, err = open(t, s, "t").Apply(t.Context(), "k", id, limits.Op{Cost: 1})
		require.Error(t, err)
		<-h.begun
		require.NoError(t, s.Close())
		select {
		case <-h.ended:
		case <-time.After(patient):
			require.Fail(t, "the goroutine continues")
		}
	})
}

// TestOrderUnderLimitsOfTwoKinds: a key that owes under two kinds needs the general script. Takes of
// one key are decided in the order of the calls all the same, also with those under the other limit.
func TestOrderUnderLimitsOfTwoKinds(t *testing.T) {
	t.Parallel()
	for name, second := range map[string]ratelimit.Limit{"bucket": ratelimit.TokenBucket(8, time.Hour, 8), "window": ratelimit.FixedWindow(8, time.Hour)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := startServer(t).client(t)
			s := newStore(t, client, Config{Mode: Coalesced})
			table := open(t, s, "t")
			take(t, table, "k", ratelimit.TokenBucket(8, time.Hour, 8), 1)
			take(t, table, "k", ratelimit.FixedWindow(8, time.Hour), 1)
			id, err := table.Plan(limits.Limit(second).Specs())
			require.NoError(t, err)
			other, err := table.Plan(limits.Limit(ratelimit.SlidingLog(100, time.Hour)).Specs())
			require.NoError(t, err)
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
				}, patient, 50*time.Microsecond)
			}
			resume()
			wg.Wait()
			require.Equal(t, [callers]int64{5, 4, 3, 2, 1, 92, -1, -1, -1, -1, -1, -1}, left)
		})
	}
}

// TestATextOfAnotherProgramIsAnError: whatever its words are; it is left as it is.
func TestATextOfAnotherProgramIsAnError(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, mode Mode) {
		t.Helper()
		client := startServer(t).client(t)
		s := newStore(t, client, Config{Mode: mode})
		for i, text := range []string{
			"hello", "hello world", "two words more", "a cat sat on a mat", "b 1", "b 1 2 x 4", "b one two three 4", "f3600000000 1 2", "f 1 2 3x",
			"1 2 3", "5 hello world|", "5 b 1 2|", "|", "x|", " b 1 2 3 1", `{"a": 1}`, "c3600000000 7 x 3 4 5", "s3600000000/10 1 2 x ",
		} {
			for kind, l := range kinds(10, time.Hour) {
				table := open(t, s, kind)
				key := fmt.Sprint(i)
				name := keyName(keyPrefix(defaultPrefix, kind), key, false)
				require.NoError(t, client.Set(t.Context(), name, text, 0).Err())
				id, err := table.Plan(limits.Limit(l).Specs())
				require.NoError(t, err)
				_, err = table.Apply(t.Context(), key, id, limits.Op{Cost: 1})
				require.ErrorContains(t, err, "another program has written to the key", "%q %s", text, kind)
				require.ErrorContains(t, err, name)
				require.Equal(t, text, client.Get(t.Context(), name).Val(), kind)
			}
		}
		require.Equal(t, breaker.Closed, s.first.guard.State())
	})
}
