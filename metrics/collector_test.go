package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/core/bulkhead"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/core/retry"
	"github.com/gresil/gresil/core/timeout"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/limitstore"
	"github.com/gresil/gresil/internal/ratelimittest"
	registrypkg "github.com/gresil/gresil/internal/registry"
	"github.com/gresil/gresil/metrics"
	"github.com/gresil/gresil/outbound/gate"
	plugins "github.com/gresil/gresil/plugins/breaker"
)

var errDown = errors.New("down")

// newGatherer is a Prometheus registry that checks all it is given.
func newGatherer(t *testing.T, registry *core.Registry) *prometheus.Registry {
	t.Helper()
	c := core.Must(metrics.New(registry, metrics.Config{Durations: true}))
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
		p := core.Must(retry.New(retry.Config{Name: "api", Registry: registry, Backoff: backoff.Constant{Delay: 2 * time.Second}}))
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

func TestRateLimiter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := &core.Registry{}
		g := newGatherer(t, registry)
		l := core.Must(ratelimit.New(ratelimit.Config{Name: "api", Registry: registry, Limit: ratelimit.TokenBucket(1, 10*time.Second, 2), MaxWait: -1}))
		for range 3 {
			core.Must(l.Take(t.Context(), "secret key", 1))
		}
		core.Must(l.Wait(t.Context(), "secret key", 1))
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(3*time.Second, cancel)
		_, err := l.Wait(ctx, "secret key", 1)
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

func TestTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := &core.Registry{}
		limit := core.Must(timeout.New(timeout.Config{Name: "slow", Registry: registry, Limit: 1500 * time.Millisecond}))
		core.Must(timeout.New(timeout.Config{Name: "none", Registry: registry, Limit: -1}))
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

func TestRegistry(t *testing.T) {
	t.Parallel()
	registry := &core.Registry{}
	g := newGatherer(t, registry)
	require.Empty(t, samples(t, g, "registry"))
	p := core.Must(retry.New(retry.Config{Name: "x", Registry: registry, Backoff: backoff.Constant{}}))
	b := core.Must(breaker.New(breaker.Config{Name: "x", Registry: registry}))
	l := core.Must(ratelimit.New(ratelimit.Config{Name: "x", Registry: registry}))
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

func TestNames(t *testing.T) {
	t.Parallel()
	registry := &core.Registry{}
	core.Must(retry.New(retry.Config{Registry: registry}))
	core.Must(ratelimit.New(ratelimit.Config{Registry: registry}))
	core.Must(breaker.New(breaker.Config{Registry: registry}))
	core.Must(breaker.NewGroup(breaker.Config{Name: "group", Registry: registry}))
	core.Must(timeout.New(timeout.Config{Registry: registry}))
	g := newGatherer(t, registry)
	problems, err := testutil.GatherAndLint(g)
	require.NoError(t, err)
	require.Empty(t, problems)
	n, err := testutil.GatherAndCount(g)
	require.NoError(t, err)
	require.Greater(t, n, 60, "there was something to lint")
}

func TestNewErrors(t *testing.T) {
	t.Parallel()
	_, err := metrics.New(nil, metrics.Config{})
	require.EqualError(t, err, "metrics.New registry = <nil>: must be the registry of the mechanisms")
	_, err = metrics.New(&core.Registry{}, metrics.Config{Namespace: "a b"})
	require.EqualError(t, err, "metrics.Config.Namespace = a b: must be the beginning of a metric name, as in resilience")
	require.ErrorIs(t, err, core.ErrConfig)
	c := core.Must(metrics.New(&core.Registry{}, metrics.Config{Namespace: "acme"}))
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

func TestDurations(t *testing.T) {
	t.Parallel()
	for _, on := range []bool{false, true} {
		registry := &core.Registry{}
		b := core.Must(breaker.New(breaker.Config{Registry: registry}))
		c := core.Must(metrics.New(registry, metrics.Config{Durations: on}))
		_, _ = breaker.Do(t.Context(), b, succeed)
		got := samples(t, gatherer(t, c), "breaker")
		_, has := got["breaker_call_duration_seconds default success count"]
		require.Equal(t, on, has)
		requireSample(t, 1, got, "breaker_calls_total default success")
		requireSample(t, 0, got, "breaker_opened_total default")
	}
}

func TestReloads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := &core.Registry{}
		g := newGatherer(t, registry)
		b := core.Must(breaker.New(breaker.Config{Registry: registry}))
		require.Error(t, b.SetConfig(breaker.Config{Window: -1}))
		got := samples(t, g, "registry_reloads")
		requireSample(t, 0, got, "registry_reloads_total breaker success")
		requireSample(t, 1, got, "registry_reloads_total breaker failure")
		require.Empty(t, samples(t, g, "registry_last"))
		time.Sleep(time.Hour)
		require.NoError(t, b.SetConfig(breaker.Config{Window: 1}))
		now := float64(time.Now().UnixMilli()) / 1000
		time.Sleep(time.Hour)
		got = samples(t, g, "registry")
		requireSample(t, 1, got, "registry_reloads_total breaker success")
		requireSample(t, now, got, "registry_last_reload_success_timestamp_seconds breaker")
	})
}

func TestHosts(t *testing.T) {
	t.Parallel()
	for _, hosts := range []bool{false, true} {
		registry := &core.Registry{}
		c := core.Must(metrics.New(registry, metrics.Config{Hosts: hosts}))
		vendor := core.Must(breaker.NewGroup(breaker.Config{Name: "vendor", Registry: registry}))
		accounts := core.Must(breaker.NewGroup(breaker.Config{Name: "accounts", Registry: registry}))
		plugins.NewClient(vendor, plugins.ClientOptions{})
		plugins.NewClient(accounts, plugins.ClientOptions{Key: func(*http.Request) (string, bool) { return "", true }})
		_, _ = breaker.Do(t.Context(), vendor.For("api.example.com"), succeed)
		require.NoError(t, vendor.For("other.example.com").OpenFor(time.Hour))
		_, _ = breaker.Do(t.Context(), vendor.For("\xff.example.com"), succeed) // of a URL with %FF
		_, _ = breaker.Do(t.Context(), accounts.For("secret"), succeed)
		got := samples(t, gatherer(t, c), "breaker_")
		if hosts {
			requireSample(t, 1, got, "breaker_state other.example.com vendor open")
			requireSample(t, 1, got, "breaker_calls_total api.example.com vendor success")
			requireSample(t, 1, got, `breaker_calls_total "\xff.example.com" vendor success`)
			requireSample(t, 3, got, "breaker_keys vendor")
			require.NotContains(t, got, "breaker_calls_total vendor success")
		} else {
			requireSample(t, 1, got, "breaker_state vendor open")
			requireSample(t, 2, got, "breaker_calls_total vendor success")
		}
		requireSample(t, 1, got, "breaker_calls_total accounts success")
		for name := range got {
			require.NotContains(t, name, "secret")
		}
	}
}

// A new config is no new instance: nothing that was counted is lost.
func TestSeriesAfterSetConfig(t *testing.T) {
	t.Parallel()
	registry := &core.Registry{}
	g := newGatherer(t, registry)
	b := core.Must(breaker.New(breaker.Config{Name: "db", Registry: registry}))
	_, _ = breaker.Do(t.Context(), b, succeed)
	require.NoError(t, b.SetConfig(b.Config()))
	requireSample(t, 1, samples(t, g, ""), "breaker_call_duration_seconds db success count")
}

type slowDownError struct{ time.Duration }

func (slowDownError) Error() string               { return "slow down" }
func (e slowDownError) RetryAfter() time.Duration { return e.Duration }

func TestGate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := &core.Registry{}
		g := newGatherer(t, registry)
		ads := core.Must(gate.New(gate.Config{
			Name: "ads", Registry: registry, InFlight: 2, MaxWait: 10 * time.Second, MaxAttempts: 1, Limits: []gate.Limit{{Name: "account", Key: gate.ByCall}},
		}))
		before := samples(t, g, "gate_")
		for name, n := range before {
			if name != "gate_in_flight_limit ads" {
				require.Zero(t, n, name)
			}
		}
		do := func(account string, err error) error {
			return ads.Do(t.Context(), gate.Call{Keys: map[string]string{"account": account}}, func(context.Context) error { return err })
		}
		for _, err := range []error{nil, nil, nil, errDown} {
			require.ErrorIs(t, do("k", err), err)
		}
		require.ErrorIs(t, do("k", slowDownError{time.Minute}), gate.ErrLimited)
		require.ErrorIs(t, do("k", nil), core.ErrRejected)
		release := make(chan struct{})
		for range 3 {
			go func() {
				_ = ads.Do(t.Context(), gate.Call{}, func(context.Context) error { <-release; return nil })
			}()
		}
		synctest.Wait()
		got := samples(t, g, "gate_")
		for name, want := range map[string]float64{
			"gate_attempts_total ads passed": 4, "gate_attempts_total ads limited": 1, "gate_refusals_total ads limit": 1, "gate_rejected_total ads": 1, "gate_holds_total ads": 1,
			"gate_held ads": 1, "gate_waiting ads": 2, "gate_in_flight ads": 1, "gate_in_flight_limit ads": 1, "gate_connections ads": 0,
			"gate_keys_evicted_total ads": 0, "gate_holds_widened_total ads": 0,
		} {
			requireSample(t, want, got, name)
		}
		for name := range got {
			require.Contains(t, before, name, "all series exist before the first event")
		}
		close(release)
		require.NoError(t, ads.Close(t.Context()))
		require.Empty(t, samples(t, g, "gate_"))
	})
}

// downStore is a store that always fails, with a local table that always decides.
type downStore struct{ ratelimit.Store }

func (s downStore) Open(name string) (limits.Table, error) {
	t, err := s.Store.Open(name)
	return downTable{t}, err
}

type downTable struct{ limits.Table }

func (t downTable) Local() limits.Table { return t.Table }

func (downTable) Apply(context.Context, string, *limits.Plan, limits.Op) (limits.Result, error) {
	return limits.Result{}, errDown
}

// Decisions of a failed store, and under a named limit, are counted apart from others. However they interleave, no difference of counters
// appears as calls, and falls again.
func TestRequestsDuringCalls(t *testing.T) {
	t.Parallel()
	for result, cfg := range map[string]ratelimit.Config{
		"error":     {Store: downStore{&ratelimittest.Memory{}}, OnStoreError: ratelimit.Local},
		"allowed":   {Limits: map[string]ratelimit.Limit{"a": ratelimit.PerHour(1 << 38)}},
		"throttled": {Limits: map[string]ratelimit.Limit{"a": ratelimit.PerHour(1)}},
	} {
		registry := &core.Registry{}
		cfg.Name, cfg.Registry = "api", registry
		l := core.Must(ratelimit.New(cfg)).Under("a")
		g := newGatherer(t, registry)
		done := make(chan struct{})
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for {
					select {
					case <-done:
						return
					default:
						_, _ = l.Take(t.Context(), "k", 1)
					}
				}
			})
		}
		for range 20 {
			requireSample(t, 0, samples(t, g, "ratelimit"), "ratelimit_requests_total api "+result)
		}
		close(done)
		wg.Wait()
	}
}

// All series exist before the first event: what happens later changes values only.
func TestSeriesBeforeTheFirstEvent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := &core.Registry{}
		g := newGatherer(t, registry)
		p := core.Must(retry.New(retry.Config{Registry: registry}))
		b := core.Must(breaker.New(breaker.Config{Registry: registry, MinCalls: 100}))
		l := core.Must(ratelimit.New(ratelimit.Config{Registry: registry, Limit: ratelimit.TokenBucket(1, time.Second, 1)}))
		limit := core.Must(timeout.New(timeout.Config{Registry: registry, Limit: time.Second}))
		h := core.Must(bulkhead.New(bulkhead.Config{Registry: registry, Limit: 2, Backoff: 0.5, MaxWait: time.Second}))
		before := samples(t, g, "")
		call, err := h.Acquire(t.Context(), "k", 2)
		require.NoError(t, err)
		_, _ = h.Acquire(t.Context(), "k", 1)
		time.AfterFunc(time.Millisecond, func() { call.Done(core.Failure) })
		waited, err := h.Acquire(t.Context(), "k", 1)
		require.NoError(t, err)
		waited.Done(core.Success)
		_, _ = retry.Do(t.Context(), p, fail)
		_, _ = breaker.Do(t.Context(), b, fail)
		require.NoError(t, b.OpenFor(time.Second))
		_, _ = breaker.Do(t.Context(), b, succeed)
		require.NoError(t, b.SetState(breaker.MetricsOnly))
		for range 2 {
			_, _ = l.Wait(t.Context(), "k", 1)
			_, _ = l.Take(t.Context(), "k", 1)
		}
		_, _ = timeout.Do(t.Context(), limit, func(ctx context.Context) (int, error) { <-ctx.Done(); return 0, ctx.Err() })
		after := samples(t, g, "")
		for name := range after {
			require.Contains(t, before, name)
		}
		require.Len(t, after, len(before))
	})
}

// A sharedStore is one that has counted.
type sharedStore struct{ stats limitstore.Stats }

func (s *sharedStore) Stats() limitstore.Stats { return s.stats }

func TestLimitStore(t *testing.T) {
	t.Parallel()
	r := &core.Registry{}
	g := newGatherer(t, r)
	s := &sharedStore{stats: limitstore.Stats{Decided: 1, Denied: 2, Local: 3, Timeouts: 4, Failed: 5, Unsent: 6, Sent: 7, Unavailable: true}}
	s.stats.RoundTrips, s.stats.RoundTripTime = 16, 3*time.Second/2
	s.stats.RoundTripsWithin = map[time.Duration]uint64{100 * time.Microsecond: 10, 250 * time.Microsecond: 10, time.Millisecond: 15}
	remove, err := limitstore.Register(r, "Name", "redis", s)
	require.NoError(t, err)
	require.Equal(t, map[string]float64{
		"store_operations_total redis decided": 1, "store_operations_total redis denied": 2,
		"store_local_operations_total redis": 3, "store_operations_total redis timeout": 4,
		"store_operations_total redis error": 5, "store_operations_total redis unsent": 6,
		"store_sent_operations_total redis": 7, "store_unavailable redis": 1,
		"store_round_trip_seconds redis count": 16, "store_round_trip_seconds redis sum": 1.5,
	}, samples(t, g, "store"))
	requireSample(t, 1, samples(t, g, "registry_entries"), "registry_entries store")
	families, err := g.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() != "resilience_store_round_trip_seconds" {
			continue
		}
		buckets := f.GetMetric()[0].GetHistogram().GetBucket()
		require.Len(t, buckets, 3)
		for i, bound := range []float64{.0001, .00025, .001} {
			require.InDelta(t, bound, buckets[i].GetUpperBound(), 1e-12)
			require.Equal(t, []uint64{10, 10, 15}[i], buckets[i].GetCumulativeCount())
		}
	}
	s.stats.Unavailable, s.stats.Instances = false, 3
	got := samples(t, g, "store")
	requireSample(t, 0, got, "store_unavailable redis")
	requireSample(t, 3, got, "store_instances redis")
	problems, err := testutil.GatherAndLint(g)
	require.NoError(t, err)
	require.Empty(t, problems)
	remove()
	require.Empty(t, samples(t, g, "store"))
}

// A cost above the capacity is refused without the store: it is throttled, and no error.
func TestStoreErrorsOneResult(t *testing.T) {
	t.Parallel()
	for _, policy := range []ratelimit.FailurePolicy{ratelimit.Allow, ratelimit.Deny, ratelimit.Local} {
		registry := &core.Registry{}
		store := downStore{&ratelimittest.Memory{}}
		l := core.Must(ratelimit.New(ratelimit.Config{Name: "api", Registry: registry, Limit: ratelimit.PerMinute(10), Store: store, OnStoreError: policy}))
		for _, cost := range []int64{1, 11} {
			_, _ = l.Take(t.Context(), "k", cost)
		}
		total := 0.0
		for _, value := range samples(t, newGatherer(t, registry), "ratelimit_requests_total") {
			total += value
		}
		require.InDelta(t, 2, total, 0, policy)
	}
}
