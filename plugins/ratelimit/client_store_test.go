package ratelimit_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/cooldown"
	"github.com/gresil/gresil/internal/redisserver"
	"github.com/gresil/gresil/internal/resiltest"
	"github.com/gresil/gresil/plugins/ratelimit"
	"github.com/gresil/gresil/stores/redisstore"
)

// TestAHoldOfAClientIsShared: a 429 that one process gets holds the host in the others, with a Store for
// the limit and with a Limiter of x/time.
func TestAHoldOfAClientIsShared(t *testing.T) {
	t.Parallel()
	srv, err := redisserver.Start(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(srv.Kill)
	for name, limiter := range map[string]*rate.Limiter{"store": nil, "x-time": rate.NewLimiter(rate.Inf, 1)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			send := func() func() error {
				redisClient := redis.NewClient(&redis.Options{Addr: srv.Addr})
				store := core.Must(redisstore.New(redisClient, redisstore.Config{Timeout: 10 * time.Second}))
				cfg := ratelimit.ClientConfig{Name: name, CooldownStore: store}
				if cfg.Limiter = limiter; limiter == nil {
					cfg.Store = store
				}
				limits, err := ratelimit.NewClient(cfg)
				require.NoError(t, err)
				t.Cleanup(func() {
					require.NoError(t, limits.Close())
					require.NoError(t, store.Close())
					require.NoError(t, redisClient.Close())
				})
				upstream := resiltest.NewScript(resiltest.Reply{Status: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"3600"}}})
				next := &http.Client{Transport: limits.Transport(upstream)}
				return func() error {
					resp, err := next.Get("http://vendor.example/")
					if err == nil {
						err = resp.Body.Close()
					}
					return err
				}
			}
			a, b := send(), send()
			require.NoError(t, a())
			require.ErrorIs(t, a(), cooldown.ErrHeld)
			observer := redis.NewClient(&redis.Options{Addr: srv.Addr})
			defer func() { _ = observer.Close() }()
			require.Eventually(t, func() bool { return len(observer.Keys(t.Context(), "*cooldowns}*"+name+"*").Val()) == 1 }, time.Minute, time.Millisecond)
			require.ErrorIs(t, b(), cooldown.ErrHeld, "its first request")
		})
	}
}

func TestAStoreThatIsANilPointerIsRefused(t *testing.T) {
	t.Parallel()
	var store *redisstore.Store // of a constructor that failed
	_, err := ratelimit.NewClient(ratelimit.ClientConfig{Name: "a", Store: store})
	require.EqualError(t, err, "ratelimit.ClientConfig.Store = a nil pointer: must be a store, or nil for state in memory")
}

func TestCooldownStoreOfAClientConfig(t *testing.T) {
	t.Parallel()
	_, err := ratelimit.NewClient(ratelimit.ClientConfig{CooldownStore: (*redisstore.Store)(nil)})
	require.EqualError(t, err, "ratelimit.ClientConfig.CooldownStore = a nil pointer: must be a store, or nil for holds of this process")
	c := core.Must(ratelimit.NewClient(ratelimit.ClientConfig{}))
	cfg := c.Config()
	cfg.CooldownStore = &redisstore.Store{}
	require.ErrorContains(t, c.SetConfig(cfg), "ratelimit.ClientConfig.CooldownStore = another one: must stay as it is")
	require.Nil(t, c.Config().CooldownStore)
}
