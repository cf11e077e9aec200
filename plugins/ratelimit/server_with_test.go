package ratelimit_test

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	gresil "github.com/gresil/gresil/core"
	core "github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/ratelimittest"
	"github.com/gresil/gresil/plugins/ratelimit"
	"github.com/gresil/gresil/server"
)

// The tiers of the outer limiter would override the limit that With sets.
func TestServer_With_HasNoTierOfTheOuter(t *testing.T) {
	t.Parallel()
	outer, err := ratelimit.NewServer(ratelimit.ServerConfig{Tier: func(*http.Request) ratelimit.Limit { return ratelimit.PerMinute(5000) }})
	require.NoError(t, err)
	login, err := outer.With(func(c *ratelimit.ServerConfig) { c.Name, c.Limit = "login", ratelimit.PerMinute(5) })
	require.NoError(t, err)
	passed := 0
	h := outer.Handler(login.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { passed++ })))
	for range 50 {
		fetch(h, "/login")
	}
	require.Equal(t, 5, passed)
}

// Two limits of one name in one response could not be told apart.
func TestServer_With_NeedsANameOfItsOwn(t *testing.T) {
	t.Parallel()
	base := serve(t, ratelimit.ServerConfig{
		Limit: ratelimit.PerSecond(9).And(ratelimit.PerHour(9)), Layers: []ratelimit.Layer{{Name: "tenant"}}, Routes: []ratelimit.Route{{Pattern: "/x"}},
	})
	for name, ok := range map[string]bool{"": false, "default": false, "default-1s": false, "tenant": false, "/x": false, "login": true} {
		_, err := base.plugin.With(func(c *ratelimit.ServerConfig) { c.Name, c.Limit = name, ratelimit.PerHour(1) })
		if ok {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, gresil.ErrConfig, name)
			require.ErrorContains(t, err, "ratelimit.ServerConfig.Name = "+strconv.Quote(name))
		}
	}
}

// What OnRejected does to the Retry-After of the default does not change it.
func TestServer_OnRejectedChangesTheHeader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, ratelimit.ServerConfig{Limit: ratelimit.PerMinute(1), OnRejected: func(w http.ResponseWriter, _ *http.Request, _ server.Rejection) {
			w.Header().Set("Retry-After", "7")
			w.Header().Set("X-Help", "https://help.test/limits")
		}})
		fetch(s, "/")
		w := fetch(s, "/")
		require.Equal(t, http.StatusTooManyRequests, w.Code)
		require.Equal(t, []string{"60"}, w.Header().Values("Retry-After"))
		require.Contains(t, w.Body.String(), "Rate limit exceeded.")
		require.Equal(t, "https://help.test/limits", w.Header().Get("X-Help"))
	})
}

// The charge comes back also when the client has left meanwhile.
func TestServer_RefundsASlowStoreAfterTheClientLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		memory, err := core.NewMemory(0)
		require.NoError(t, err)
		limits, err := ratelimit.NewServer(ratelimit.ServerConfig{Limit: ratelimit.PerHour(1), Store: &ratelimittest.Slow{Store: memory, Delay: time.Millisecond}})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		h := limits.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			cancel()
			server.Reject(w, r, server.Rejection{Status: http.StatusServiceUnavailable})
		}))
		do(h, request(http.MethodGet, "/").WithContext(ctx))
		require.Equal(t, http.StatusServiceUnavailable, do(h, request(http.MethodGet, "/")).Code, "not 429: the charge was given back")
	})
}

var errNoPlan = errors.New("no more plans")

// stingy is a store whose tables know one limit.
type stingy struct{ core.Store }

func (s stingy) Open(name string) (limits.Table, error) {
	t, err := s.Store.Open(name)
	return &stingyTable{Table: t}, err
}

type stingyTable struct {
	limits.Table
	known bool
}

func (t *stingyTable) Plan(l []limits.Spec) (*limits.Plan, error) {
	if t.known {
		return nil, errNoPlan
	}
	t.known = true
	return t.Table.Plan(l)
}

func TestServer_AFailedConstructorLeavesTheNameFree(t *testing.T) {
	t.Parallel()
	memory, err := core.NewMemory(0)
	require.NoError(t, err)
	registry := &gresil.Registry{}
	cfg := ratelimit.ServerConfig{Registry: registry, Store: stingy{memory}, Routes: []ratelimit.Route{{Pattern: "/x", Limit: ratelimit.PerHour(1)}}}
	_, err = ratelimit.NewServer(cfg)
	require.ErrorIs(t, err, errNoPlan)
	_, taken := gresil.Lookup[*ratelimit.Server](registry, "default")
	require.False(t, taken)
}
