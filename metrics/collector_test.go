package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/core/retry"
	"github.com/gresil/gresil/core/timeout"
	registrypkg "github.com/gresil/gresil/internal/registry"
	"github.com/gresil/gresil/metrics"
)

var errDown = errors.New("down")

// newGatherer is a Prometheus registry that checks all it is given.
func newGatherer(t *testing.T, registry *core.Registry) *prometheus.Registry {
	t.Helper()
	c, err := metrics.New(registry, metrics.Config{Durations: true})
	require.NoError(t, err)
	g := prometheus.NewPedanticRegistry()
	require.NoError(t, g.Register(c))
	return g
}

// put adds an entry.
func put(t *testing.T, to *core.Registry, e registrypkg.Entry) (remove func()) {
	t.Helper()
	remove, err := (*registrypkg.Registry)(to).Add(e)
	require.NoError(t, err)
	return remove
}

// samples is what is exported under some names, a line each, without buckets.
func samples(t *testing.T, g prometheus.Gatherer, prefix string) map[string]float64 {
	t.Helper()
	families, err := g.Gather()
	require.NoError(t, err)
	got := map[string]float64{}
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "resilience_"+prefix) {
			continue
		}
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			name := strings.TrimPrefix(f.GetName(), "resilience_") + " " + strings.Join(labels, " ")
			switch {
			case m.GetCounter() != nil:
				got[name] = m.GetCounter().GetValue()
			case m.GetGauge() != nil:
				got[name] = m.GetGauge().GetValue()
			default:
				got[name+" count"] = float64(m.GetHistogram().GetSampleCount())
				got[name+" sum"] = m.GetHistogram().GetSampleSum()
			}
		}
	}
	return got
}

// requireSample wants a sample to be there, and to have a value: 0 is not the same
// as none.
func requireSample(t *testing.T, want float64, got map[string]float64, name string, why ...any) {
	t.Helper()
	require.Contains(t, got, name, why...)
	require.InDelta(t, want, got[name], 1e-9, name)
}

func fail(context.Context) (int, error)    { return 0, errDown }
func succeed(context.Context) (int, error) { return 1, nil }

func TestRetry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := &core.Registry{}
		p, err := retry.New(retry.Config{Name: "api", Registry: registry, Backoff: backoff.Constant{Delay: 2 * time.Second}})
		require.NoError(t, err)
		g := newGatherer(t, registry)
		requireSample(t, 0, samples(t, g, "retry"), "retry_suppressed_total api deadline", "series are there from the start")
		_, _ = retry.Do(t.Context(), p, fail)
		_, _ = retry.Do(t.Context(), p, succeed)
		require.Equal(t, map[string]float64{
			"retry_calls_total api failure false": 0, "retry_calls_total api failure true": 1,
			"retry_calls_total api success false": 1, "retry_calls_total api success true": 0,
			"retry_backoff_seconds api backoff count": 2, "retry_backoff_seconds api backoff sum": 4,
			"retry_backoff_seconds api retry_after count": 0, "retry_backoff_seconds api retry_after sum": 0,
			"retry_retries_total api":             2,
			"retry_suppressed_total api canceled": 0, "retry_suppressed_total api deadline": 0, "retry_suppressed_total api not_repeatable": 0,
			"retry_suppressed_total api rejected": 0, "retry_suppressed_total api budget": 0, "retry_suppressed_total api retry_after": 0,
			"retry_suppressed_total api other": 0,
		}, samples(t, g, "retry"))
	})
}

func TestRetryBudget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := &core.Registry{}
		p, err := retry.New(retry.Config{Registry: registry, Backoff: backoff.Constant{}})
		require.NoError(t, err)
		g := newGatherer(t, registry)
		require.NotContains(t, samples(t, g, "retry"), "retry_budget_left default", "there is none")
		budget, err := retry.NewBudget(0.5, 1)
		require.NoError(t, err)
		cfg := p.Config()
		cfg.Budget = budget
		require.NoError(t, p.SetConfig(cfg))
		requireSample(t, 1, samples(t, g, "retry"), "retry_budget_left default")
		_, _ = retry.Do(t.Context(), p, fail)
		got := samples(t, g, "retry")
		requireSample(t, 0, got, "retry_budget_left default")
		requireSample(t, 1, got, "retry_suppressed_total default budget")
		requireSample(t, 1, got, "retry_backoff_seconds default backoff count", "the observer outlives the Config")
		for range 5 {
			_, _ = retry.Do(t.Context(), p, succeed)
		}
		requireSample(t, 3, samples(t, g, "retry"), "retry_budget_left default")
	})
}

func TestRateLimiter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := &core.Registry{}
		g := newGatherer(t, registry)
		l, err := ratelimit.New(ratelimit.Config{Name: "api", Registry: registry, Limit: ratelimit.TokenBucket(1, 10*time.Second, 2), MaxWait: -1})
		require.NoError(t, err)
		for range 3 {
			_, err = l.Take(t.Context(), "secret key", 1)
			require.NoError(t, err)
		}
		_, err = l.Wait(t.Context(), "secret key", 1)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(3*time.Second, cancel)
		_, err = l.Wait(ctx, "secret key", 1)
		require.ErrorIs(t, err, context.Canceled)
		got := samples(t, g, "ratelimit")
		require.Equal(t, map[string]float64{
			"ratelimit_requests_total api allowed": 3, "ratelimit_requests_total api throttled": 1,
			"ratelimit_requests_total api canceled": 1, "ratelimit_requests_total api error": 0,
			"ratelimit_store_errors_total api": 0, "ratelimit_waiters api": 0, "ratelimit_limit_permits api": 2, "ratelimit_window_seconds api": 10,
			"ratelimit_partitions api": 1, "ratelimit_partition_evictions_total api capacity": 0,
			"ratelimit_wait_seconds api allowed count": 1, "ratelimit_wait_seconds api allowed sum": 10,
			"ratelimit_wait_seconds api canceled count": 1, "ratelimit_wait_seconds api canceled sum": 3,
		}, got)
		require.NotContains(t, fmt.Sprint(got), "secret", "a key is never a label")
	})
}

func TestBreaker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := &core.Registry{}
		b, err := breaker.New(breaker.Config{Name: "db", Registry: registry, Window: 4, MinCalls: 2, Trials: 1, OpenDelay: backoff.Constant{Delay: time.Minute}})
		require.NoError(t, err)
		g := newGatherer(t, registry)
		require.NotContains(t, samples(t, g, ""), "breaker_failure_ratio db", "too few calls")
		_, _ = breaker.Do(t.Context(), b, succeed)
		_, _ = breaker.Do(t.Context(), b, func(context.Context) (int, error) { time.Sleep(time.Second); return 0, errDown })
		_, err = breaker.Do(t.Context(), b, succeed)
		require.ErrorIs(t, err, core.ErrRejected)
		got := samples(t, g, "breaker")
		for name, want := range map[string]float64{
			"breaker_state db open": 1, "breaker_state db closed": 0, "breaker_state db half_open": 0,
			"breaker_state db forced_open": 0, "breaker_state db disabled": 0, "breaker_state db metrics_only": 0,
			"breaker_calls_total db success": 1, "breaker_calls_total db failure": 1, "breaker_calls_total db ignored": 0, "breaker_calls_total db not_permitted": 1,
			"breaker_failure_ratio_threshold db":             0.5,
			"breaker_open_until_timestamp_seconds db":        float64(time.Now().Add(time.Minute).Unix()),
			"breaker_opened_total db":                        1,
			"breaker_call_duration_seconds db failure count": 1,
			"breaker_call_duration_seconds db failure sum":   1,
			"breaker_call_duration_seconds db success count": 1,
		} {
			requireSample(t, want, got, name)
		}
	})
}

func TestBreakerGroupIsExportedAsAWhole(t *testing.T) {
	t.Parallel()
	registry := &core.Registry{}
	group, err := breaker.NewGroup(breaker.Config{Name: "hosts", Registry: registry, Window: 1})
	require.NoError(t, err)
	g := newGatherer(t, registry)
	few := len(samples(t, g, "breaker"))
	for i := range 50 {
		_, _ = breaker.Do(t.Context(), group.For(fmt.Sprint("host", i)), fail)
	}
	_, _ = breaker.Do(t.Context(), group.For("good"), succeed)
	got := samples(t, g, "breaker")
	requireSample(t, 50, got, "breaker_state hosts open")
	requireSample(t, 1, got, "breaker_state hosts closed")
	requireSample(t, 51, got, "breaker_keys hosts")
	requireSample(t, 50, got, "breaker_calls_total hosts failure")
	requireSample(t, 50, got, "breaker_opened_total hosts")
	require.Len(t, got, few, "the number of series does not grow with the keys")
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := &core.Registry{}
		limit, err := timeout.New(timeout.Config{Name: "slow", Registry: registry, Limit: 1500 * time.Millisecond})
		require.NoError(t, err)
		_, err = timeout.New(timeout.Config{Name: "none", Registry: registry, Limit: -1})
		require.NoError(t, err)
		g := newGatherer(t, registry)
		_, _ = timeout.Do(t.Context(), limit, succeed)
		_, _ = timeout.Do(t.Context(), limit, func(ctx context.Context) (int, error) { <-ctx.Done(); return 0, ctx.Err() })
		require.Equal(t, map[string]float64{
			"timeout_calls_total slow success": 1, "timeout_calls_total slow failure": 0, "timeout_calls_total slow timeout": 1,
			"timeout_calls_total none success": 0, "timeout_calls_total none failure": 0, "timeout_calls_total none timeout": 0,
			"timeout_limit_seconds slow": 1.5,
		}, samples(t, g, "timeout"))
	})
}

func TestSeriesComeAndGoWithTheRegistry(t *testing.T) {
	t.Parallel()
	registry := &core.Registry{}
	g := newGatherer(t, registry)
	require.Empty(t, samples(t, g, "registry"))
	p, err := retry.New(retry.Config{Name: "x", Registry: registry, Backoff: backoff.Constant{}})
	require.NoError(t, err)
	b, err := breaker.New(breaker.Config{Name: "x", Registry: registry})
	require.NoError(t, err)
	l, err := ratelimit.New(ratelimit.Config{Name: "x", Registry: registry})
	require.NoError(t, err)
	put(t, registry, registrypkg.Entry{Kind: "other", Name: "x", Instance: new(int)})
	_, _ = retry.Do(t.Context(), p, fail)
	got := samples(t, g, "")
	requireSample(t, 1, got, "registry_entries retry")
	requireSample(t, 1, got, "registry_entries other")
	requireSample(t, 2, got, "retry_backoff_seconds x backoff count")

	require.NoError(t, p.Close())
	require.NoError(t, b.Close())
	for name := range samples(t, g, "") {
		require.False(t, strings.HasPrefix(name, "retry_") || strings.HasPrefix(name, "breaker_"), name)
	}

	require.NoError(t, l.Close())
	core.Must(ratelimit.New(ratelimit.Config{Name: "x", Registry: registry, Limit: ratelimit.PerSecond(7)}))
	requireSample(t, 7, samples(t, g, ""), "ratelimit_limit_permits x")
	requireSample(t, 0, samples(t, g, ""), "ratelimit_wait_seconds x allowed count", "the series of the new one are there")
}

func TestNamesAreAsPrometheusWantsThem(t *testing.T) {
	t.Parallel()
	registry := &core.Registry{}
	_, err := retry.New(retry.Config{Registry: registry})
	require.NoError(t, err)
	_, err = ratelimit.New(ratelimit.Config{Registry: registry})
	require.NoError(t, err)
	_, err = breaker.New(breaker.Config{Registry: registry})
	require.NoError(t, err)
	_, err = breaker.NewGroup(breaker.Config{Name: "group", Registry: registry})
	require.NoError(t, err)
	_, err = timeout.New(timeout.Config{Registry: registry})
	require.NoError(t, err)
	g := newGatherer(t, registry)
	problems, err := testutil.GatherAndLint(g)
	require.NoError(t, err)
	require.Empty(t, problems)
	n, err := testutil.GatherAndCount(g)
	require.NoError(t, err)
	require.Greater(t, n, 60, "there was something to lint")
}

func TestNewReportsBadInput(t *testing.T) {
	t.Parallel()
	_, err := metrics.New(nil, metrics.Config{})
	require.EqualError(t, err, "metrics.New registry = <nil>: must be the registry of the mechanisms")
	_, err = metrics.New(&core.Registry{}, metrics.Config{Namespace: "a b"})
	require.EqualError(t, err, "metrics.Config.Namespace = a b: must be the beginning of a metric name, as in resilience")
	require.ErrorIs(t, err, core.ErrConfig)
	c, err := metrics.New(&core.Registry{}, metrics.Config{Namespace: "acme"})
	require.NoError(t, err)
	n, err := testutil.GatherAndCount(gatherer(t, c), "acme_build_info")
	require.NoError(t, err)
	require.Equal(t, 1, n)
}

func gatherer(t *testing.T, c prometheus.Collector) prometheus.Gatherer {
	t.Helper()
	g := prometheus.NewPedanticRegistry()
	require.NoError(t, g.Register(c))
	return g
}

func TestDurationsAreOnRequest(t *testing.T) {
	t.Parallel()
	for _, on := range []bool{false, true} {
		registry := &core.Registry{}
		b, err := breaker.New(breaker.Config{Registry: registry})
		require.NoError(t, err)
		c, err := metrics.New(registry, metrics.Config{Durations: on})
		require.NoError(t, err)
		_, _ = breaker.Do(t.Context(), b, succeed)
		got := samples(t, gatherer(t, c), "breaker")
		_, has := got["breaker_call_duration_seconds default success count"]
		require.Equal(t, on, has)
		requireSample(t, 1, got, "breaker_calls_total default success")
		requireSample(t, 0, got, "breaker_opened_total default")
	}
}
