package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/core/cooldown"
	"github.com/gresil/gresil/core/event"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/core/retry"
	"github.com/gresil/gresil/core/timeout"
	"github.com/gresil/gresil/metrics"
)

func TestPermitsAreOnRequest(t *testing.T) {
	t.Parallel()
	registry := &core.Registry{}
	l := core.Must(ratelimit.New(ratelimit.Config{Name: "api", Registry: registry, Limit: ratelimit.PerMinute(10)}))
	without := newGatherer(t, registry)
	c := core.Must(metrics.New(registry, metrics.Config{Permits: true}))
	with := gatherer(t, c)
	for _, cost := range []int64{7, 5, 0} {
		_, err := l.Take(t.Context(), "k", cost)
		require.NoError(t, err)
	}
	_, err := l.TakeAtMost(t.Context(), "k", 100)
	require.NoError(t, err)
	got := samples(t, with, "ratelimit_permits")
	require.Equal(t, map[string]float64{"ratelimit_permits_total api allowed": 10, "ratelimit_permits_total api throttled": 5}, got)
	require.Empty(t, samples(t, without, "ratelimit_permits"))
	require.NoError(t, l.Close())
	require.Empty(t, samples(t, with, "ratelimit_permits"), "they leave with it")
	require.NoError(t, c.Close())
}

// fake takes configs.
type fake struct{}

func (fake) SetConfig(limit int) error {
	if limit < 0 {
		return errDown
	}
	return nil
}

func TestConfigsThatAreTakenAndRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := &core.Registry{}
		g := newGatherer(t, registry)
		require.NoError(t, registry.Add("fake", "a", &fake{}))
		require.Error(t, core.SetConfig(registry, "fake", "a", -1))
		got := samples(t, g, "registry_reloads")
		requireSample(t, 0, got, "registry_reloads_total fake success")
		requireSample(t, 1, got, "registry_reloads_total fake failure")
		require.Empty(t, samples(t, g, "registry_last"))
		time.Sleep(time.Hour)
		require.NoError(t, core.SetConfig(registry, "fake", "a", 1))
		now := float64(time.Now().UnixMilli()) / 1000
		time.Sleep(time.Hour)
		got = samples(t, g, "registry")
		requireSample(t, 1, got, "registry_reloads_total fake success")
		requireSample(t, now, got, "registry_last_reload_success_timestamp_seconds fake")
	})
}

// A new config is no new instance: nothing that was counted is lost.
func TestAConfigThatIsTakenKeepsTheSeries(t *testing.T) {
	t.Parallel()
	registry := &core.Registry{}
	g := newGatherer(t, registry)
	b := core.Must(breaker.New(breaker.Config{Name: "db", Registry: registry}))
	_, _ = breaker.Do(t.Context(), b, succeed)
	_ = core.SetConfig(registry, "breaker", "db", b.Config())
	requireSample(t, 1, samples(t, g, ""), "breaker_call_duration_seconds db success count")
}

func TestTagsAreLabelsOfTheEntry(t *testing.T) {
	t.Parallel()
	registry := &core.Registry{}
	g := newGatherer(t, registry)
	require.NoError(t, registry.Tag("", "a", map[string]string{"zone": "z", "app": "shop"}))
	require.NoError(t, registry.Tag("", "b", map[string]string{"team": "t"}))
	p := core.Must(retry.New(retry.Config{Name: "a", Registry: registry}))
	core.Must(retry.New(retry.Config{Name: "b", Registry: registry}))
	core.Must(retry.New(retry.Config{Name: "none", Registry: registry}))
	require.Equal(t, map[string]float64{"registry_entry_info shop retry a z": 1, "registry_entry_info retry b t": 1}, samples(t, g, "registry_entry_info"))
	replacement := core.Must(retry.New(retry.Config{}))
	_, err := registry.Replace("retry", "a", replacement)
	require.NoError(t, err)
	require.Len(t, samples(t, g, "registry_entry_info"), 2)
	require.True(t, registry.Remove("retry", "a", replacement))
	require.Len(t, samples(t, g, "registry_entry_info"), 1)
	require.NoError(t, p.Close())
}

func TestEventsThatALogDropped(t *testing.T) {
	t.Parallel()
	registry := &core.Registry{}
	g := newGatherer(t, registry)
	log := core.Must(event.New[int](2))
	require.NoError(t, registry.Add("event", "audit", log))
	for i := range 5 {
		log.Add(i)
	}
	requireSample(t, 3, samples(t, g, "events"), "events_dropped_total event audit")
	_, cancel := registry.Subscribe(func(core.RegistryEvent) { panic("subscriber") })
	defer cancel()
	require.True(t, registry.Remove("event", "audit", log))
	require.Empty(t, samples(t, g, "events"))
	got := samples(t, g, "hook_panics")
	requireSample(t, 1, got, "hook_panics_total registry ")
}

func TestRejectionsOfHTTP(t *testing.T) {
	t.Parallel()
	c := core.Must(metrics.New(&core.Registry{}, metrics.Config{}))
	g := gatherer(t, c)
	late := core.Must(timeout.New(timeout.Config{Limit: time.Second}))
	for _, r := range []struct {
		count func(err error, code int)
		err   error
		code  int
	}{
		{c.ServerRejected, &ratelimit.LimitedError{}, 429},
		{c.ServerRejected, fmt.Errorf("wrapped: %w", &ratelimit.LimitedError{}), 429},
		{c.ServerRejected, &breaker.OpenError{}, 503},
		{c.ClientRejected, &breaker.OpenError{}, 0},
		{c.ClientRejected, &timeout.Error{Name: late.Name(), Limit: late.Limit()}, -7},
		{c.ClientRejected, core.ErrRejected, 503},
		{c.ClientRejected, errors.New("unheard of"), 99999},
		{c.ClientRejected, context.Canceled, 600},
		{c.ServerRejected, nil, 200},
	} {
		r.count(r.err, r.code)
	}
	got := samples(t, g, "http_rejections")
	maps.DeleteFunc(got, func(_ string, n float64) bool { return n == 0 })
	require.Equal(t, map[string]float64{ // code, reason, side
		"http_rejections_total 429 rate_limited server": 2, "http_rejections_total 503 circuit_open server": 1,
		"http_rejections_total none circuit_open client": 1, "http_rejections_total none timeout client": 1,
		"http_rejections_total 503 rejected client": 1, "http_rejections_total none other client": 2,
	}, got)
	problems, err := testutil.GatherAndLint(g)
	require.NoError(t, err)
	require.Empty(t, problems)
	require.NoError(t, c.Close())
}

func TestTagsLeaveTheSeriesAlone(t *testing.T) {
	t.Parallel()
	r := &core.Registry{}
	g := newGatherer(t, r)
	br := core.Must(breaker.New(breaker.Config{Name: "db", Registry: r}))
	require.NoError(t, br.SetState(breaker.ForcedOpen))
	before := samples(t, g, "breaker")
	require.NotEmpty(t, before)
	require.NoError(t, r.Tag("", "", map[string]string{"team": "shop"}))
	require.Equal(t, before, samples(t, g, "breaker"))
}

func TestACooldown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &core.Registry{}
		g := newGatherer(t, r)
		c := core.Must(cooldown.New(cooldown.Config{Name: "vendor", Registry: r, MaxKeys: 1}))
		c.Hold(t.Context(), "k", time.Second)
		p, err := c.Acquire(t.Context(), "k")
		require.NoError(t, err)
		p.Done(core.Success)
		c.Hold(t.Context(), "k", time.Hour)
		_, err = c.Acquire(t.Context(), "k")
		require.ErrorIs(t, err, core.ErrRejected)
		got := samples(t, g, "cooldown_")
		requireSample(t, 2, got, "cooldown_holds_total held vendor")
		requireSample(t, 1, got, "cooldown_holds_total resumed vendor")
		requireSample(t, 1, got, "cooldown_calls_total vendor waited")
		requireSample(t, 1, got, "cooldown_calls_total vendor rejected")
		requireSample(t, 1, got, "cooldown_keys vendor")
		requireSample(t, 0, got, "cooldown_waiting vendor")
	})
}
