package standard_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	corelimit "github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/resiltest"
	"github.com/gresil/gresil/plugins/breaker"
	"github.com/gresil/gresil/plugins/retry"
	"github.com/gresil/gresil/plugins/timeout"
	"github.com/gresil/gresil/standard"
)

func newClient(t *testing.T, cfg standard.Config) *standard.Client {
	t.Helper()
	c, err := standard.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func TestTheZeroConfig(t *testing.T) {
	t.Parallel()
	c := newClient(t, standard.Config{})
	require.Equal(t, "Overall timeout.Client(standard-total) > Attempts retry.Client(standard) > Admission *ratelimit.Client(standard) > "+
		"Attempt breaker.Client(standard) > Attempt+10 timeout.Client(standard-attempt) > *http.Transport", c.Pipeline.String())
	require.Empty(t, c.Pipeline.Check())
	require.Zero(t, c.Timeout)
	require.Equal(t, 30*time.Second, c.Total.Config().Limit)
	require.Equal(t, 10*time.Second, c.Attempt.Config().Limit)
	require.Equal(t, 4, c.Retry.Config().MaxAttempts)
	require.Equal(t, 10*time.Second, c.Retry.Config().MaxRetryAfter)
	require.Equal(t, breaker.Config{Name: "standard"}, c.Breaker.Config())
	require.Equal(t, corelimit.PerSecond(1000), c.Limit.Config().Limit)
}

func TestPartsAreRegisteredUnderTheName(t *testing.T) {
	t.Parallel()
	registry := &core.Registry{}
	c := newClient(t, standard.Config{Name: "orders", Registry: registry, Retry: retry.Config{Name: "mine"}})
	var names []string
	for e := range registry.All() {
		names = append(names, e.Kind+" "+e.Name)
	}
	require.Subset(t, names, []string{"breaker orders", "ratelimit orders", "retry mine", "timeout orders-attempt", "timeout orders-total"})
	_, err := standard.New(standard.Config{Name: "orders", Registry: registry})
	require.ErrorContains(t, err, "already registered")
	require.Len(t, slices.Collect(registry.All()), len(names), "what was made before the failure is taken out")
	require.NoError(t, c.Close())
	require.Empty(t, slices.Collect(registry.All()))
}

func TestSettingsThatWorkAgainstEachOther(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cfg  standard.Config
		want string // no error if empty
	}{
		{standard.Config{Attempt: timeout.Config{Limit: time.Minute}}, "standard.Config.Attempt.Limit = 1m0s: must be at most that of Total, 30s, or nothing is retried after it"},
		{standard.Config{Total: timeout.Config{Limit: 5 * time.Second}}, ""},
		{standard.Config{Total: timeout.Config{Limit: -1}, Attempt: timeout.Config{Limit: time.Minute}}, ""},
		{standard.Config{Attempt: timeout.Config{Limit: -1}}, ""},
		{standard.Config{Total: timeout.Config{Limit: -1}, Attempt: timeout.Config{Limit: time.Minute}}, ""},
		{standard.Config{Attempt: timeout.Config{Limit: -1}}, ""},
		{standard.Config{HTTP: http.Client{Timeout: 15 * time.Second}, Total: timeout.Config{Limit: -1}}, ""},
		{standard.Config{Breaker: breaker.Config{WindowTime: time.Second}, Attempt: timeout.Config{Limit: -1}}, ""},
		{standard.Config{Attempt: timeout.Config{Limit: 20 * time.Second}}, ""},
		{standard.Config{Breaker: breaker.Config{WindowTime: 19 * time.Second}}, "standard.Config.Breaker.WindowTime = 19s: must be at least twice the limit of an attempt, 10s, or it forgets what is slow"},
		{standard.Config{Breaker: breaker.Config{Window: 50}}, ""},
		{standard.Config{Breaker: breaker.Config{Failures: 3, SlowCall: time.Second}}, ""},
		{standard.Config{HTTP: http.Client{Timeout: 29 * time.Second}}, "standard.Config.HTTP.Timeout = 29s: must be 0, or at least the limit of Total, 30s"},
		{standard.Config{HTTP: http.Client{Timeout: time.Hour}, Total: timeout.Config{Limit: -1}}, ""},
		{standard.Config{HTTP: http.Client{Timeout: time.Second}, Total: timeout.Config{Limit: -1}}, "standard.Config.HTTP.Timeout = 1s: must be 0, or at least the limit of an attempt, 10s"},
		{standard.Config{HTTP: http.Client{Timeout: 30 * time.Second}}, ""},
		{standard.Config{Retry: retry.Config{MaxAttempts: -1}}, "standard.Config.Retry.MaxAttempts = -1: must be"},
		{standard.Config{Breaker: breaker.Config{Trials: -1}}, "standard.Config.Breaker.Trials = -1: must be"},
	} {
		made, err := standard.New(c.cfg)
		if c.want == "" {
			require.NoError(t, err)
			require.NoError(t, made.Close())
			continue
		}
		require.Nil(t, made)
		var bad *core.ConfigError
		require.ErrorAs(t, err, &bad)
		require.Contains(t, err.Error(), c.want)
	}
	_, err := standard.New(standard.Config{Retry: retry.Config{MaxRetryAfter: -1}, Attempt: timeout.Config{Limit: time.Hour}})
	require.ErrorContains(t, err, "standard.Config.Retry.MaxRetryAfter")
	require.ErrorContains(t, err, "standard.Config.Attempt.Limit")
}

func TestRetriesBreakersAndTimeoutsWorkTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stub := resiltest.NewScript(resiltest.Reply{Status: 503}, resiltest.Reply{Status: 503}, resiltest.Reply{})
		c := newClient(t, standard.Config{HTTP: http.Client{Transport: stub}, Breaker: breaker.Config{MinCalls: 10}})
		resp, err := c.Get("http://one.test/")
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, []any{200, 3}, []any{resp.StatusCode, stub.Calls()})
	})
}

func TestAServerThatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stub := resiltest.NewScript(resiltest.Reply{Delay: -1})
		c := newClient(t, standard.Config{HTTP: http.Client{Transport: stub}})
		start := time.Now()
		_, err := c.Get("http://one.test/")
		var late *timeout.Error
		require.ErrorAs(t, err, &late)
		require.True(t, errors.Is(err, context.DeadlineExceeded))
		require.LessOrEqual(t, time.Since(start), 30*time.Second)
		require.GreaterOrEqual(t, stub.Calls(), 2)
	})
}

func TestEveryPartCanBeChanged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stub := resiltest.NewScript(resiltest.Reply{Status: 500})
		c := newClient(t, standard.Config{HTTP: http.Client{Transport: stub}, Retry: retry.Config{MaxAttempts: 2}, Breaker: breaker.Config{Window: 4, MinCalls: 4}})
		get := func(ctx context.Context) (*http.Response, error) {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://one.test/", nil)
			require.NoError(t, err)
			return c.Do(req)
		}
		for range 2 {
			resp, err := get(t.Context())
			require.NoError(t, err)
			require.Equal(t, 500, resp.StatusCode, "the last answer comes back as it is")
			require.NoError(t, resp.Body.Close())
		}
		require.Equal(t, 4, stub.Calls())
		_, err := get(t.Context())
		require.ErrorIs(t, err, core.ErrRejected)
		var open *breaker.OpenError
		require.ErrorAs(t, err, &open)
		require.Equal(t, 4, stub.Calls())
		require.NoError(t, c.Breaker.For("one.test:80").SetState(breaker.Disabled))
		resp, err := get(c.Retry.Override(t.Context(), func(r *retry.Config) { r.MaxAttempts = 1 }))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, 5, stub.Calls())
	})
}

func TestALimiterOfXTimeAndFurtherPlugins(t *testing.T) {
	t.Parallel()
	stub := resiltest.NewScript()
	own := timeout.NewClient(core.Must(timeout.New(timeout.Config{Name: "own"})), timeout.ClientOptions{})
	cfg := standard.Config{HTTP: http.Client{Transport: stub}, Plugins: []client.Plugin{own}, Registry: &core.Registry{}}
	cfg.Limit.Limiter = rate.NewLimiter(1, 1)
	cfg.Limit.MaxWait = time.Nanosecond
	c := newClient(t, cfg)
	require.Contains(t, c.Pipeline.String(), "(standard-total) > Overall timeout.Client(own) > ")
	resp, err := c.Get("http://one.test/")
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	_, err = c.Get("http://one.test/")
	require.ErrorIs(t, err, core.ErrRejected)
}

// The default FailureRate does not exclude Failures.
func TestABreakerOpensAfterANumberOfFailures(t *testing.T) {
	t.Parallel()
	for name, window := range map[string]int{"within the default time": 0, "in a row": 3} {
		synctest.Test(t, func(t *testing.T) {
			stub := resiltest.NewScript(resiltest.Reply{Status: 500})
			c := newClient(t, standard.Config{HTTP: http.Client{Transport: stub}, Breaker: breaker.Config{Failures: 3, Window: window}})
			_, err := c.Get("http://one.test/")
			require.ErrorIs(t, err, breaker.ErrOpen, name)
			require.Equal(t, 3, stub.Calls(), name)
		})
	}
}
