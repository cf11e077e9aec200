package ratelimit_test

import (
	"context"
	"net/http"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	coreratelimit "github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/plugins/ratelimit"
	"github.com/gresil/gresil/server"
)

// network is the network of the client, by the first bits of its address.
func network(v4, v6 int) server.Key {
	return func(r *http.Request) (string, bool) {
		addr := server.Proxies{}.Addr(r)
		bits := v4
		if addr.Is6() {
			bits = v6
		}
		network, err := addr.Prefix(bits)
		return network.String(), err == nil
	}
}

func from(h http.Handler, addr string) int {
	r := request(http.MethodGet, "/")
	r.RemoteAddr = netip.AddrPortFrom(netip.MustParseAddr(addr), 1).String()
	return do(h, r).Code
}

// An unrefunded store is one whose refunds fail.
type unrefunded struct{ coreratelimit.Store }

type unrefundedTable struct{ limits.Table }

func (s unrefunded) Open(name string) (limits.Table, error) {
	t, err := s.Store.Open(name)
	return unrefundedTable{t}, err
}

func (t unrefundedTable) Apply(ctx context.Context, key string, plan *limits.Plan, op limits.Op) (limits.Result, error) {
	if op.Kind == limits.Refund {
		return limits.Result{}, context.DeadlineExceeded
	}
	return t.Table.Apply(ctx, key, plan, op)
}

func TestARefusalIs429AlsoIfARefundFails(t *testing.T) {
	t.Parallel()
	for _, wait := range []time.Duration{0, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			s := serve(t, ratelimit.ServerConfig{
				Store: unrefunded{core.Must(coreratelimit.NewMemory(0))}, Limit: ratelimit.PerHour(10), MaxWait: wait,
				Layers: []ratelimit.Layer{{Name: "all", Limit: ratelimit.PerMinute(1)}},
			})
			require.Equal(t, 200, fetch(s, "/").Code)
			w := fetch(s, "/")
			require.Equal(t, 429, w.Code, "MaxWait %v", wait)
			require.Equal(t, "60", w.Header().Get("Retry-After"))
			stats := s.plugin.Stats()
			require.EqualValues(t, 1, stats.Rejected)
			require.Zero(t, stats.Failed)
		})
	}
}

func TestANetworkAndItsAddressesAreLimited(t *testing.T) {
	t.Parallel()
	one := serve(t, ratelimit.ServerConfig{Limit: ratelimit.PerMinute(1)})
	for _, tt := range []struct {
		addr string
		want int
	}{
		{"2001:db8:1234:5678::1", 200},
		{"2001:db8:1234:5678:ffff::", 429},
		{"2001:db8:1234:5679::1", 200},
		{"::ffff:1.2.3.4", 200},
		{"1.2.3.4", 429},
		{"::ffff:9.9.9.9", 200},
	} {
		require.Equal(t, tt.want, from(one, tt.addr), tt.addr)
	}

	s := serve(t, ratelimit.ServerConfig{
		Limit:  ratelimit.PerMinute(2),
		Layers: []ratelimit.Layer{{Name: "site", Key: network(24, 56), Limit: ratelimit.PerMinute(3)}, {Name: "isp", Key: network(16, 48), Limit: ratelimit.PerMinute(5)}},
	})
	for i, tt := range []struct {
		addr string
		want int
	}{
		{"2001:db8:1:100::1", 200},
		{"2001:db8:1:100::2", 200},
		{"2001:db8:1:100::3", 429}, // its /64 has two
		{"2001:db8:1:101::1", 200},
		{"2001:db8:1:102::1", 429}, // its /56 has three
		{"2001:db8:1:200::1", 200},
		{"2001:db8:1:300::1", 200},
		{"2001:db8:1:400::1", 429}, // its /48 has five
		{"2001:db8:2:100::1", 200},
		{"192.168.1.100", 200},
		{"192.168.1.100", 200},
		{"192.168.1.100", 429},
		{"192.168.1.101", 200},
		{"192.168.1.102", 429}, // its /24
		{"192.168.2.1", 200},
		{"192.168.3.1", 200},
		{"192.168.4.1", 429},
		{"192.169.0.1", 200},
	} {
		require.Equal(t, tt.want, from(s, tt.addr), "%d: %s", i, tt.addr)
	}
	result, err := s.plugin.Limiter().Peek(t.Context(), "#layer:4:site:192.168.4.0/24")
	require.NoError(t, err)
	require.EqualValues(t, 2, result.Remaining, "what the isp refused did not cost the site")
}

func TestLayers_AllOrNone(t *testing.T) {
	t.Parallel()
	s := serve(t, ratelimit.ServerConfig{
		Limit: ratelimit.PerHour(10), Key: server.Header("User"), Weight: cost,
		Layers: []ratelimit.Layer{{Name: "tenant", Key: server.Header("Tenant"), Limit: ratelimit.PerHour(20)}, {Name: "all", Limit: ratelimit.PerHour(5)}},
		Routes: []ratelimit.Route{{Pattern: "/route", Limit: ratelimit.PerHour(2)}},
	})
	left := func(key string, limit int64) int64 {
		limiter, err := s.plugin.Limiter().WithLimit(ratelimit.PerHour(limit))
		require.NoError(t, err)
		result, err := limiter.Peek(t.Context(), key)
		require.NoError(t, err)
		return result.Remaining
	}
	require.Equal(t, 200, fetch(s, "/", "User", "ann", "Tenant", "x", "Cost", "4").Code)
	require.Equal(t, 429, fetch(s, "/", "User", "ann", "Tenant", "x", "Cost", "2").Code, "all have one left")
	require.Equal(t, 413, fetch(s, "/", "User", "ann", "Tenant", "x", "Cost", "6").Code, "more than all ever have")
	require.EqualValues(t, 6, left("ann", 10))
	require.EqualValues(t, 16, left("#layer:6:tenant:x", 20))
	require.EqualValues(t, 1, left("#layer:3:all:", 5))
	require.Equal(t, 200, fetch(s, "/route", "User", "ann", "Cost", "1").Code, "without a tenant; routes are held to layers too")
	require.EqualValues(t, 1, left("#route:6:/route:ann", 2))
	require.EqualValues(t, 16, left("#layer:6:tenant:x", 20))
	require.Equal(t, 429, fetch(s, "/route", "User", "bob", "Cost", "1").Code)
	require.EqualValues(t, 2, left("#route:6:/route:bob", 2))

	// What a plugin further in refuses goes back to all.
	require.NoError(t, s.plugin.Limiter().Reset(t.Context(), "#layer:3:all:"))
	full := s.plugin.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { server.Reject(w, r, server.Rejection{}) }))
	before := []int64{left("ann", 10), left("#layer:6:tenant:x", 20), left("#layer:3:all:", 5)}
	require.Equal(t, 503, fetch(full, "/", "User", "ann", "Tenant", "x", "Cost", "1").Code)
	require.Equal(t, before, []int64{left("ann", 10), left("#layer:6:tenant:x", 20), left("#layer:3:all:", 5)})
}

func TestLayers_OnTheWireAndInInfo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var infos []ratelimit.Info
		keep := func(_ http.ResponseWriter, _ *http.Request, info ratelimit.Info) { infos = append(infos, info) }
		s := serve(t, ratelimit.ServerConfig{
			Name: "api", Limit: ratelimit.PerMinute(10), Key: server.Header("User"), Headers: ratelimit.HeaderDraft10 | ratelimit.HeaderDraft03, OnSuccess: keep,
			OnRejected: func(_ http.ResponseWriter, _ *http.Request, rej server.Rejection) {
				infos = append(infos, limitedInfo(rej))
			},
			Layers: []ratelimit.Layer{{Name: "tenant", Key: server.Header("Tenant"), Limit: ratelimit.PerHour(2)}, {Name: "all", Limit: ratelimit.PerSecond(2)}},
		})
		w := fetch(s, "/", "User", "ann")
		require.Equal(t, []string{`"api";q=10;w=60, "all";q=2;w=1`}, w.Header().Values("RateLimit-Policy"), "no tenant, no layer")
		require.Equal(t, []string{`"api";r=9;t=60, "all";r=1;t=1`}, w.Header().Values("RateLimit"))
		require.Equal(t, "1", w.Header().Get("RateLimit-Remaining"), "the one with least left")
		require.Equal(t, "all", infos[0].Name)
		require.Equal(t, "#layer:3:all:", infos[0].Key)

		time.Sleep(time.Second)
		w = fetch(s, "/", "User", "ann", "Tenant", "x")
		require.Equal(t, `"api";r=8;t=59, "tenant";r=1;t=3600, "all";r=1;t=1`, w.Header().Get("RateLimit"))
		time.Sleep(time.Second)
		require.Equal(t, 200, fetch(s, "/", "User", "ann", "Tenant", "x").Code)
		w = fetch(s, "/", "User", "ann", "Tenant", "x")
		require.Equal(t, 429, w.Code)
		require.Equal(t, `"api";q=10;w=60, "tenant";q=2;w=3600, "all";q=2;w=1`, w.Header().Get("RateLimit-Policy"))
		require.Equal(t, `"api";r=7;t=58, "tenant";r=0;t=3599, "all";r=1;t=1`, w.Header().Get("RateLimit"), "the others are as they were")
		require.Equal(t, []string{"2", "0", "3599"}, []string{w.Header().Get("RateLimit-Limit"), w.Header().Get("RateLimit-Remaining"), w.Header().Get("RateLimit-Reset")})
		require.Equal(t, "3599", w.Header().Get("Retry-After"))
		require.Contains(t, w.Body.String(), `"violated-policies":["tenant"]`)
		last := infos[len(infos)-1]
		require.Equal(t, "tenant", last.Name)
		time.Sleep(3599 * time.Second)
		require.Equal(t, 200, fetch(s, "/", "User", "ann", "Tenant", "x").Code, "Retry-After is enough for all")

		require.Equal(t, 200, fetch(s, "/", "User", "ann", "Tenant", "x").Code)
		w = fetch(s, "/", "User", "ann", "Tenant", "x")
		require.Contains(t, w.Body.String(), `"violated-policies":["tenant","all"]`, "both have refused")
		require.Equal(t, "3600", w.Header().Get("Retry-After"), "the later of both")
	})
}

// TestLayers_ThatTie: a client with no permit left is told when it has one of each.
func TestLayers_ThatTie(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limits := []ratelimit.Limit{ratelimit.PerSecond(1), ratelimit.PerMinute(1)}
		for i := range limits {
			own, layer := limits[i], limits[1-i]
			for _, cfg := range []ratelimit.ServerConfig{{Limit: own, Layers: []ratelimit.Layer{{Name: "all", Limit: layer}}}, {Limit: own.And(layer)}} {
				cfg.Headers = ratelimit.HeaderDraft03
				w := fetch(serve(t, cfg), "/")
				require.Equal(t, 200, w.Code)
				require.Equal(t, []string{"0", "60"}, []string{w.Header().Get("RateLimit-Remaining"), w.Header().Get("RateLimit-Reset")}, "%v", cfg.Limit)
			}
		}
	})
}

func TestServer_With_HasNoLayersOfTheOuter(t *testing.T) {
	t.Parallel()
	api := serve(t, ratelimit.ServerConfig{Name: "api", Layers: []ratelimit.Layer{{Name: "all", Limit: ratelimit.PerMinute(1)}}})
	login := core.Must(api.plugin.With(func(c *ratelimit.ServerConfig) { c.Name = "login" }))
	require.Empty(t, login.Config().Layers)
	require.Len(t, api.plugin.Config().Layers, 1)
}

func TestLayers_AFailedStoreLetsPass(t *testing.T) {
	t.Parallel()
	s := serve(t, ratelimit.ServerConfig{Store: brokenStore{}, Headers: allHeaders, Layers: []ratelimit.Layer{{Name: "all"}}})
	w := fetch(s, "/")
	require.Equal(t, 200, w.Code)
	require.Empty(t, w.Header())
	s = serve(t, ratelimit.ServerConfig{Store: brokenStore{}, OnStoreError: ratelimit.Deny, Layers: []ratelimit.Layer{{Name: "all"}}})
	require.Equal(t, 503, fetch(s, "/").Code)
}
