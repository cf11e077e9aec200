package ratelimit_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/cooldown"
	"github.com/gresil/gresil/plugins/ratelimit"
)

func TestClientOverride(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limits := core.Must(ratelimit.NewClient(ratelimit.ClientConfig{Limit: ratelimit.PerHour(1)}))
		other := core.Must(ratelimit.NewClient(ratelimit.ClientConfig{Limit: ratelimit.PerHour(2)}))
		sent := 0
		c := &http.Client{Transport: other.Transport(limits.Transport(roundTrip(func(req *http.Request) (*http.Response, error) {
			sent++
			return &http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"60"}}, Body: http.NoBody, Request: req}, nil
		})))}
		off := func(call *ratelimit.ClientCall) { call.Disabled = true }
		ctx := limits.Override(other.Override(t.Context(), off), off)
		for range 3 {
			require.NoError(t, get(ctx, t, c, "http://a.test/"))
		}
		_, held := limits.Cooldown().Until("http://a.test:80")
		require.False(t, held, "nothing is learned")
		require.Zero(t, limits.Stats().Allowed)
		on := limits.Override(ctx, func(call *ratelimit.ClientCall) {
			call.Disabled = false
			call.Key = func(*http.Request) string { return "tenant" }
		})
		require.NoError(t, get(on, t, c, "http://a.test/"), "the innermost is last")
		until, held := limits.Cooldown().Until("tenant")
		require.True(t, held)
		require.Equal(t, time.Minute, time.Until(until))
		require.ErrorIs(t, get(on, t, c, "http://b.test/"), core.ErrRejected, "it has the same key")
		require.Equal(t, 4, sent)
		require.EqualValues(t, 1, limits.Stats().Allowed)
		require.EqualValues(t, 1, limits.Cooldown().Stats().Holds)
		require.Zero(t, other.Stats().Allowed)
		require.Same(t, t.Context(), limits.Override(t.Context(), nil))
	})
}

func TestClientOverrideOfALimiterOfXTime(t *testing.T) {
	t.Parallel()
	limits := core.Must(ratelimit.NewClient(ratelimit.ClientConfig{Limiter: rate.NewLimiter(0, 1)}))
	sent := 0
	c := &http.Client{Transport: limits.Transport(roundTrip(func(req *http.Request) (*http.Response, error) {
		sent++
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: req}, nil
	}))}
	keyed := limits.Override(t.Context(), func(call *ratelimit.ClientCall) { call.Key = func(*http.Request) string { return "a" } })
	err := get(keyed, t, c, "http://a.test/")
	require.ErrorIs(t, err, core.ErrConfig)
	require.ErrorContains(t, err, "ratelimit.ClientCall.Key = set: must be nil with a Limiter")
	require.Zero(t, sent)
	off := limits.Override(t.Context(), func(call *ratelimit.ClientCall) { call.Disabled = true })
	for range 3 {
		require.NoError(t, get(off, t, c, "http://a.test/"))
	}
	require.Zero(t, limits.Stats())
}

func TestAClientIsRegisteredWithItsMechanisms(t *testing.T) {
	t.Parallel()
	registry := &core.Registry{}
	limits := core.Must(ratelimit.NewClient(ratelimit.ClientConfig{Name: "vendor", Registry: registry}))
	plugin, ok := core.Lookup[*ratelimit.Client](registry, "vendor")
	require.True(t, ok)
	require.Same(t, limits, plugin)
	gate, ok := core.Lookup[*cooldown.Cooldown](registry, "vendor")
	require.True(t, ok)
	require.Same(t, limits.Cooldown(), gate)
	_, err := ratelimit.NewClient(ratelimit.ClientConfig{Name: "vendor", Registry: registry})
	require.ErrorContains(t, err, "already registered")
	require.NoError(t, limits.Close())
	require.NoError(t, limits.Close())
	for e := range registry.All() {
		t.Errorf("%s %s is still there", e.Kind, e.Name)
	}
}
