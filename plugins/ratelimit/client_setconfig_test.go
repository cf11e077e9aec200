package ratelimit_test

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	core_ratelimit "github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/ratelimittest"
	"github.com/gresil/gresil/plugins/ratelimit"
)

func TestClientSetConfig(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r core.Registry
		limits := core.Must(ratelimit.NewClient(ratelimit.ClientConfig{Name: "api", Registry: &r, Limit: core_ratelimit.TokenBucket(1, time.Minute, 1), MaxWait: -1}))
		t.Cleanup(func() { require.NoError(t, limits.Close()) })
		c := &http.Client{Transport: limits.Transport(&answers{})}
		require.NoError(t, get(t.Context(), t, c, "http://a.test/"))
		require.NoError(t, get(t.Context(), t, c, "http://b.test/"))
		a, _ := client.Host(httptest.NewRequest(http.MethodGet, "http://a.test/", nil))
		// It may be one that others share.
		next := ratelimit.ClientConfig{Limit: core_ratelimit.TokenBucket(2, time.Minute, 1), Key: func(*http.Request) string { return a }}
		require.NoError(t, limits.SetConfig(next))
		for _, host := range []string{"a", "b", "c"} {
			require.ErrorIs(t, get(t.Context(), t, c, "http://"+host+".test/"), core.ErrRejected, "a minute is more than 10 seconds")
		}
		time.Sleep(50 * time.Second)
		require.NoError(t, get(t.Context(), t, c, "http://b.test/"))
		require.Equal(t, "api", limits.Config().Name)
		require.Same(t, &r, limits.Config().Registry)
		require.Zero(t, limits.Config().MaxWait)

		for want, bad := range map[string]ratelimit.ClientConfig{
			"ratelimit.ClientConfig.Name = other: must stay api":              {Name: "other"},
			"ratelimit.ClientConfig.Limiter = true: must stay set: false":     {Limiter: rate.NewLimiter(1, 1)},
			"ratelimit.ClientConfig.MaxKeys = 7: must stay as it is":          {MaxKeys: 7},
			"ratelimit.ClientConfig.Limit = -1/1m: must have 1 to 2748779069": {Limit: core_ratelimit.PerMinute(-1)},
		} {
			require.ErrorContains(t, limits.SetConfig(bad), want)
		}
		require.Equal(t, next.Limit, limits.Config().Limit, "the old one is kept")
		require.NotNil(t, limits.Config().Key)
		require.NoError(t, limits.SetConfig(ratelimit.ClientConfig{Limit: core_ratelimit.PerHour(7), MaxWait: time.Second}))
		require.Equal(t, core_ratelimit.PerHour(7), limits.Config().Limit)
		require.Equal(t, core_ratelimit.PerHour(7), limits.Limiter().Config().Limit)
		require.Equal(t, time.Second, limits.Config().MaxWait)
		require.Equal(t, time.Second, limits.Cooldown().Config().MaxWait)
		require.Nil(t, limits.Config().Key)
	})
}

func TestClientSetConfigWithALimiterOfXTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limits := core.Must(ratelimit.NewClient(ratelimit.ClientConfig{Name: "api", Limiter: rate.NewLimiter(rate.Every(time.Minute), 1)}))
		c := &http.Client{Transport: limits.Transport(&answers{})}
		require.NoError(t, get(t.Context(), t, c, "http://a.test/"))
		require.ErrorIs(t, get(t.Context(), t, c, "http://a.test/"), core.ErrRejected)
		require.NoError(t, limits.SetConfig(with(limits.Config(), func(c *ratelimit.ClientConfig) { c.Name, c.MaxWait = "", time.Hour })))
		start := time.Now()
		require.NoError(t, get(t.Context(), t, c, "http://a.test/"))
		require.Equal(t, time.Minute, time.Since(start))
		require.Equal(t, "api", limits.Config().Name)
		require.EqualError(t, limits.SetConfig(ratelimit.ClientConfig{}), "ratelimit.ClientConfig.Limiter = false: must stay set: true")
		other := ratelimit.ClientConfig{Limiter: rate.NewLimiter(rate.Inf, 1)}
		require.EqualError(t, limits.SetConfig(with(other, func(c *ratelimit.ClientConfig) { c.Name = "other" })), "ratelimit.ClientConfig.Name = other: must stay api")
		require.NoError(t, limits.SetConfig(other))
		require.NoError(t, get(t.Context(), t, c, "http://a.test/"))
		require.Equal(t, time.Minute, time.Since(start))
	})
}

func TestClientConfigIsThatWhichWasGiven(t *testing.T) {
	t.Parallel()
	for _, given := range []ratelimit.ClientConfig{
		{},
		{Name: "n", Registry: &core.Registry{}, Limit: core_ratelimit.PerMinute(7), MaxWait: -1, MaxQueue: 5, MaxKeys: 16, OnStoreError: core_ratelimit.Deny},
		{Name: "s", Store: &ratelimittest.Slow{Store: &ratelimittest.Memory{}}},
	} {
		limits, err := ratelimit.NewClient(given)
		require.NoError(t, err)
		require.Equal(t, given, limits.Config())
		require.NoError(t, limits.SetConfig(given))
		require.Equal(t, given, limits.Config())
		require.NoError(t, limits.Close())
	}
}

func TestClientSetConfigUnderConcurrentUse(t *testing.T) {
	t.Parallel()
	limits := core.Must(ratelimit.NewClient(ratelimit.ClientConfig{Limit: ratelimit.PerHour(1 << 20)}))
	t.Cleanup(func() { require.NoError(t, limits.Close()) })
	c := &http.Client{Transport: limits.Transport(roundTrip(func(req *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: req}, nil
	}))}
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for n := range 200 {
				if i == 0 {
					if err := limits.SetConfig(ratelimit.ClientConfig{Limit: ratelimit.PerHour(int64(1<<20 + n%2))}); err != nil {
						t.Error(err)
					}
				}
				resp, err := c.Get("http://a.test/")
				if err != nil {
					t.Error(err)
					continue
				}
				_ = resp.Body.Close()
			}
		})
	}
	wg.Wait()
}

// with returns a copy of a Config, changed by f.
func with[C any](c C, f func(*C)) C {
	f(&c)
	return c
}
