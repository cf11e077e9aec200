package dispatch_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/redistest"
	"github.com/gresil/gresil/outbound/dispatch"
	"github.com/gresil/gresil/stores/redisstore"
)

func newRedisStore(t *testing.T, addr string, cfg redisstore.Config) *redisstore.Store {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: addr})
	cfg.Timeout = 10 * time.Second
	s, err := redisstore.New(client, cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = s.Close()
		_ = client.Close()
	})
	return s
}

// TestCooldownsOfAllScopesAreShared: a dispatcher in another process holds the account, or the vendor,
// whatever the text of the account is, and no other account.
func TestCooldownsOfAllScopesAreShared(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	for name, cfg := range map[string]redisstore.Config{"plain": {}, "hashed": {HashKeys: true, Prefix: "hashed"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			held := map[string]int{}
			connect := func() *dispatch.Dispatcher[string, struct{}] {
				d, err := dispatch.New(dispatch.Config[string, struct{}]{
					Name: "vendor", Attempts: 1, Classify: classify, Account: func(key string) string { return key }, Store: newRedisStore(t, srv.Addr, cfg),
					Hooks: dispatch.Hooks{Held: func(_ context.Context, info dispatch.Info) {
						mu.Lock()
						defer mu.Unlock()
						held[info.Scope.String()+info.Account]++
					}},
				})
				require.NoError(t, err)
				t.Cleanup(func() {
					canceled, cancel := context.WithCancel(context.Background())
					cancel()
					_ = d.Close(canceled)
				})
				return d
			}
			call := func(d *dispatch.Dispatcher[string, struct{}], account string, limit error) error {
				_, err := dispatch.Do(t.Context(), d, account, func(context.Context, struct{}) (int, error) { return 0, limit })
				return err
			}
			a, b := connect(), connect()
			accounts := []string{"1:2", "/1", "{1}", "ünï", "\x00", strings.Repeat("k", 1024)}
			for _, account := range accounts {
				require.NoError(t, call(b, account, nil))
				require.Error(t, call(a, account, &limitError{time.Hour, dispatch.ScopeAccount}))
			}
			require.NoError(t, call(b, "free", nil))
			require.Eventually(t, func() bool { return len(b.Snapshot().Held) == len(accounts) }, time.Minute, time.Millisecond)
			for _, hold := range b.Snapshot().Held {
				require.Equal(t, dispatch.ScopeAccount, hold.Scope)
				require.Contains(t, accounts, hold.Account)
			}
			require.Error(t, call(b, "free", &limitError{2 * time.Hour, dispatch.ScopeVendor}))
			require.Eventually(t, func() bool { return len(a.Snapshot().Held) == len(accounts)+1 }, time.Minute, time.Millisecond)
			require.Equal(t, dispatch.ScopeVendor, a.Snapshot().Held[0].Scope)
			mu.Lock()
			defer mu.Unlock()
			for scope, n := range held {
				require.Equal(t, 2, n, "%q: once in each process", scope)
			}
		})
	}
}

// TestAClosedDispatcherLeavesTheStore: neither a goroutine nor a connection for messages stays, and the
// store can be used again.
func TestAClosedDispatcherLeavesTheStore(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := newRedisStore(t, srv.Addr, redisstore.Config{})
	subscribers := func(n int) {
		t.Helper()
		require.Eventually(t, func() bool {
			list, err := srv.Do("client", "list", "type", "pubsub")
			return err == nil && strings.Count(list, "\n") == n
		}, time.Minute, time.Millisecond)
	}
	for range 2 {
		d := core.Must(dispatch.New(dispatch.Config[string, struct{}]{Store: s}))
		_, err := dispatch.Do(t.Context(), d, "", func(context.Context, struct{}) (int, error) { return 0, nil })
		require.NoError(t, err)
		subscribers(1)
		require.NoError(t, d.Close(t.Context()))
		require.NoError(t, d.Close(t.Context()))
		subscribers(0)
	}
}

func TestStoreOfAConfig(t *testing.T) {
	t.Parallel()
	_, err := dispatch.New(dispatch.Config[string, struct{}]{Store: (*redisstore.Store)(nil)})
	require.EqualError(t, err, "dispatch.Config.Store = a nil pointer: must be a store, or nil for holds of this process")
	s := newRedisStore(t, "127.0.0.1:1", redisstore.Config{})
	var failed sync.WaitGroup
	failed.Add(1)
	d := core.Must(dispatch.New(dispatch.Config[string, struct{}]{Store: s, Hooks: dispatch.Hooks{StoreFailed: func(_ context.Context, info dispatch.Info) {
		defer failed.Done() // twice would panic
		if info.Name != "default" || info.Err == nil {
			t.Errorf("%+v", info)
		}
	}}}))
	cfg := d.Config()
	cfg.Store = nil
	require.ErrorContains(t, d.SetConfig(cfg), "dispatch.Config.Store = another one: must stay as it is")
	cfg.Store = s
	require.NoError(t, d.SetConfig(cfg))
	_, err = dispatch.Do(t.Context(), d, "", func(context.Context, struct{}) (int, error) { return 0, nil })
	require.NoError(t, err, "a server that is not there holds no call")
	failed.Wait()
	require.NoError(t, d.Close(t.Context()))
	require.NoError(t, s.Close())
	_, err = dispatch.New(dispatch.Config[string, struct{}]{Store: s})
	require.ErrorIs(t, err, core.ErrClosed)
}
