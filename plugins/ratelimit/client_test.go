package ratelimit_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	core_ratelimit "github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/ratelimittest"
	"github.com/gresil/gresil/internal/roundtrip"
	"github.com/gresil/gresil/plugins/ratelimit"
)

// answers is a transport that counts, and answers 200 or fails.
type answers struct {
	n    int
	fail error
}

func (a *answers) RoundTrip(req *http.Request) (*http.Response, error) {
	roundtrip.CloseBody(req)
	a.n++
	if a.fail != nil {
		return nil, a.fail
	}
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: req, Header: http.Header{}}, nil
}

func newClient(t *testing.T, cfg ratelimit.ClientConfig, base http.RoundTripper) *http.Client {
	t.Helper()
	limits, err := ratelimit.NewClient(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, limits.Close()) })
	return &http.Client{Transport: client.New(base, limits)}
}

func get(ctx context.Context, t *testing.T, c *http.Client, url string) error {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	require.NoError(t, err)
	resp, err := c.Do(req)
	if err == nil {
		require.NoError(t, resp.Body.Close())
	}
	return err
}

func TestClientWaitsForItsTurn(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]ratelimit.ClientConfig{
		"limit":  {Limit: core_ratelimit.TokenBucket(2, time.Second, 1)},
		"x/time": {Limiter: rate.NewLimiter(2, 1)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				base := &answers{}
				c := newClient(t, cfg, base)
				start := time.Now()
				for i := range 5 {
					require.NoError(t, get(t.Context(), t, c, "http://a.test/"))
					require.Equal(t, time.Duration(i)*500*time.Millisecond, time.Since(start).Round(time.Microsecond))
				}
				require.Equal(t, 5, base.n)
			})
		})
	}
}

func TestClientRejectsAtOnceWhatWouldWaitTooLong(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]ratelimit.ClientConfig{
		"limit":  {Name: "vendor", Limit: core_ratelimit.TokenBucket(1, time.Minute, 1)},
		"x/time": {Name: "vendor", Limiter: rate.NewLimiter(rate.Every(time.Minute), 1)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				base := &answers{}
				c := newClient(t, cfg, base)
				start := time.Now()
				require.NoError(t, get(t.Context(), t, c, "http://a.test/"))
				for range 3 { // a rejection takes no turn: the wait does not grow
					body := &closeCounter{Reader: strings.NewReader("x")}
					req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://a.test/", body)
					require.NoError(t, err)
					_, err = c.Do(req)
					require.ErrorIs(t, err, core.ErrRejected)
					require.ErrorIs(t, err, core_ratelimit.ErrLimited)
					after, ok := core.RetryAfter(err)
					require.True(t, ok)
					require.InDelta(t, time.Minute, after, float64(time.Microsecond))
					require.ErrorContains(t, err, "ratelimit: vendor: limited for another")
					require.Equal(t, 1, body.closed)
				}
				require.Zero(t, time.Since(start))
				require.Equal(t, 1, base.n)

				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				time.Sleep(55 * time.Second)
				require.NoError(t, get(ctx, t, c, "http://a.test/"), "within MaxWait")
				require.InDelta(t, time.Minute, time.Since(start), float64(time.Microsecond))
			})
		})
	}
}

type closeCounter struct {
	io.Reader
	closed int
}

func (c *closeCounter) Close() error { c.closed++; return nil }

func TestClientGivesTheTurnBackWhenTheCallIsRejectedFurtherIn(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]ratelimit.ClientConfig{
		"limit":  {Limit: core_ratelimit.PerHour(1)},
		"x/time": {Limiter: rate.NewLimiter(rate.Every(time.Hour), 1)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				base := &answers{fail: core.ErrRejected}
				c := newClient(t, cfg, base)
				for range 5 {
					time.Sleep(time.Millisecond) // a reservation of x/time is then of the past
					require.ErrorIs(t, get(t.Context(), t, c, "http://a.test/"), core.ErrRejected)
				}
				require.Equal(t, 5, base.n)
				base.fail = errors.New("reset")
				require.ErrorIs(t, get(t.Context(), t, c, "http://a.test/"), base.fail)
				require.ErrorIs(t, get(t.Context(), t, c, "http://a.test/"), core_ratelimit.ErrLimited, "a call that failed was a call")
			})
		})
	}
}

// The turn comes back also when the caller has left meanwhile.
func TestClientGivesTheTurnBackToASlowStoreAfterTheCallerLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		memory := &ratelimittest.Memory{}
		ctx, cancel := context.WithCancel(t.Context())
		reject := roundTrip(func(*http.Request) (*http.Response, error) {
			cancel()
			return nil, core.ErrRejected
		})
		limits, err := ratelimit.NewClient(ratelimit.ClientConfig{Name: "a", Limit: core_ratelimit.PerHour(1), Store: &ratelimittest.Slow{Store: memory, Delay: time.Millisecond}})
		require.NoError(t, err)
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://a.test/", http.NoBody)
		require.NoError(t, err)
		_, err = limits.Transport(reject).RoundTrip(req)
		require.ErrorIs(t, err, core.ErrRejected)
		left, err := limits.Limiter().Peek(t.Context(), "a.test:80")
		require.NoError(t, err)
		require.EqualValues(t, 1, left.Remaining)
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func TestClientRejectsAtOnceWhatWouldPassTheDeadline(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]ratelimit.ClientConfig{
		"limit":  {Limit: core_ratelimit.PerMinute(1), MaxWait: -1},
		"x/time": {Limiter: rate.NewLimiter(rate.Every(time.Minute), 1), MaxWait: -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newClient(t, cfg, &answers{})
				require.NoError(t, get(t.Context(), t, c, "http://a.test/"))
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				start := time.Now()
				require.ErrorIs(t, get(ctx, t, c, "http://a.test/"), core_ratelimit.ErrLimited)
				require.Zero(t, time.Since(start))
			})
		})
	}
}

func TestClientTransportOfNilIsTheDefault(t *testing.T) {
	t.Parallel()
	limits, err := ratelimit.NewClient(ratelimit.ClientConfig{})
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "nonsense://a.test/", http.NoBody)
	require.NoError(t, err)
	_, err = limits.Transport(nil).RoundTrip(req)
	require.ErrorContains(t, err, "unsupported protocol scheme")
}

// Every field of the core's Config is one of the plugin's, and gets there.
func TestClientConfigForgetsNoFieldOfTheCore(t *testing.T) {
	t.Parallel()
	memory := &ratelimittest.Memory{}
	limits, err := ratelimit.NewClient(ratelimit.ClientConfig{
		Name: "n", Registry: &core.Registry{}, Limit: core_ratelimit.PerHour(7), MaxWait: 5, MaxQueue: 6, Store: memory, OnStoreError: core_ratelimit.Deny,
	})
	require.NoError(t, err)
	got := reflect.ValueOf(limits.Limiter().Config())
	for i := range got.NumField() {
		if name := got.Type().Field(i).Name; name != "MaxKeys" && name != "Registry" && name != "Limits" { // which excludes a Store; which has the plugin; which has no use
			require.False(t, got.Field(i).IsZero(), name)
		}
	}
	limits, err = ratelimit.NewClient(ratelimit.ClientConfig{MaxKeys: 77})
	require.NoError(t, err)
	require.Equal(t, 77, limits.Limiter().Config().MaxKeys)
}

func TestClientCancelDuringTheWait(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]ratelimit.ClientConfig{
		"limit":  {Limit: core_ratelimit.TokenBucket(1, 10*time.Second, 1)},
		"x/time": {Limiter: rate.NewLimiter(rate.Every(10*time.Second), 1)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newClient(t, cfg, &answers{})
				require.NoError(t, get(t.Context(), t, c, "http://a.test/"))
				start := time.Now()
				for range 5 {
					ctx, cancel := context.WithCancel(t.Context())
					time.AfterFunc(time.Second, cancel)
					require.ErrorIs(t, get(ctx, t, c, "http://a.test/"), context.Canceled)
				}
				require.Equal(t, 5*time.Second, time.Since(start))
				require.NoError(t, get(t.Context(), t, c, "http://a.test/"))
				require.InDelta(t, 10*time.Second, time.Since(start), float64(time.Microsecond), "those who left gave their turn back")
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				require.ErrorIs(t, get(ctx, t, c, "http://a.test/"), context.Canceled)
			})
		})
	}
}

func TestClientKeysByHost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, ratelimit.ClientConfig{Limit: core_ratelimit.PerHour(1)}, &answers{})
		require.NoError(t, get(t.Context(), t, c, "http://a.test/"))
		require.ErrorIs(t, get(t.Context(), t, c, "http://A.test:80/other"), core_ratelimit.ErrLimited)
		require.NoError(t, get(t.Context(), t, c, "http://b.test/"))
		require.NoError(t, get(t.Context(), t, c, "https://a.test/"), "another port")
		require.ErrorIs(t, get(t.Context(), t, c, "https://a.test:443/"), core_ratelimit.ErrLimited)

		byTenant := newClient(t, ratelimit.ClientConfig{Limit: core_ratelimit.PerHour(1), Key: func(r *http.Request) string { return r.URL.Query().Get("tenant") }}, &answers{})
		require.NoError(t, get(t.Context(), t, byTenant, "http://a.test/?tenant=1"))
		require.NoError(t, get(t.Context(), t, byTenant, "http://a.test/?tenant=2"))
		require.ErrorIs(t, get(t.Context(), t, byTenant, "http://b.test/?tenant=1"), core_ratelimit.ErrLimited)
	})
}

func TestClientStoreFailure(t *testing.T) {
	t.Parallel()
	memory := &ratelimittest.Memory{}
	store := &ratelimittest.Failing{Store: memory}
	base := &answers{}
	allow := newClient(t, ratelimit.ClientConfig{Name: "a", Store: store}, base)
	deny := newClient(t, ratelimit.ClientConfig{Name: "deny", Store: store, OnStoreError: core_ratelimit.Deny}, base)
	store.Down()
	require.NoError(t, get(t.Context(), t, allow, "http://a.test/"))
	err := get(t.Context(), t, deny, "http://a.test/")
	require.ErrorIs(t, err, core_ratelimit.ErrStore)
	require.NotErrorIs(t, err, core.ErrRejected)
	require.Equal(t, 1, base.n)
}

func TestClientNeverWithinTheBurst(t *testing.T) {
	t.Parallel()
	c := newClient(t, ratelimit.ClientConfig{Limiter: rate.NewLimiter(1, 0), MaxWait: -1}, &answers{})
	err := get(t.Context(), t, c, "http://a.test/")
	require.ErrorIs(t, err, core_ratelimit.ErrLimited)
	_, ok := core.RetryAfter(err)
	require.False(t, ok, "waiting does not help")
}

func TestClientConfigIsValidated(t *testing.T) {
	t.Parallel()
	_, err := ratelimit.NewClient(ratelimit.ClientConfig{Limit: core_ratelimit.PerHour(-1), MaxKeys: -1})
	require.ErrorIs(t, err, core.ErrConfig)
	require.ErrorContains(t, err, "ratelimit.ClientConfig.Limit = -1/1h")
	require.ErrorContains(t, err, "ratelimit.ClientConfig.MaxKeys = -1")
	_, err = ratelimit.NewClient(ratelimit.ClientConfig{
		Limiter: rate.NewLimiter(1, 1), Limit: core_ratelimit.PerHour(1), Registry: &core.Registry{}, MaxKeys: 1, OnStoreError: core_ratelimit.Deny,
		Key: func(*http.Request) string { return "" },
	})
	for _, field := range []string{"Registry", "Limit", "Key", "MaxKeys", "OnStoreError"} {
		require.ErrorContains(t, err, "ratelimit.ClientConfig."+field+" = set: must be zero with a Limiter")
	}
}
