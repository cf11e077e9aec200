package ratelimit_test

import (
	"net/http"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/plugins/ratelimit"
	"github.com/gresil/gresil/server"
)

// sink is a writer that allocates nothing.
type sink struct{ header http.Header }

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) Write(p []byte) (int, error) { return len(p), nil }
func (s *sink) WriteHeader(int)             {}

func quick(http.ResponseWriter, *http.Request) {}

// allocated returns the allocations and bytes of a request.
func allocated(cfg ratelimit.Config, opts ratelimit.ServerOptions, target string) (times, bytes float64) {
	const runs = 10_000
	h := core.Must(ratelimit.NewServer(core.Must(ratelimit.New(cfg)), opts)).Handler(http.HandlerFunc(quick))
	w, r := &sink{header: http.Header{}}, request(http.MethodGet, target)
	h.ServeHTTP(w, r)
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range runs {
		clear(w.header)
		h.ServeHTTP(w, r)
	}
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / runs, float64(after.TotalAlloc-before.TotalAlloc) / runs
}

// Not parallel: it counts allocations.
func TestServer_Allocations(t *testing.T) {
	many := ratelimit.FixedWindow(1<<20, 1<<50)
	cfg := ratelimit.Config{Limit: many, Limits: map[string]ratelimit.Limit{"route": many}}
	routes := []ratelimit.Route{{Pattern: "POST /export", Limit: "route"}, {Pattern: "GET /users/me", Limit: "route"}}
	for name, tt := range map[string]struct {
		cfg          ratelimit.Config
		opts         ratelimit.ServerOptions
		target       string
		times, bytes float64
	}{
		"no fields":     {cfg, ratelimit.ServerOptions{}, "/", 1, 128},
		"X":             {cfg, ratelimit.ServerOptions{XRateLimit: true}, "/", 3, 160},
		"bucket":        {ratelimit.Config{Limit: ratelimit.TokenBucket(1<<20, 1<<30, 1<<20)}, ratelimit.ServerOptions{XRateLimit: true}, "/", 3, 160},
		"tier":          {cfg, ratelimit.ServerOptions{XRateLimit: true, Tier: func(*http.Request) string { return "route" }}, "/", 3, 160},
		"composed key":  {cfg, ratelimit.ServerOptions{XRateLimit: true, Key: server.FirstOf(server.Header("X-API-Key"), server.ClientIP)}, "/", 3, 160},
		"literal route": {cfg, ratelimit.ServerOptions{XRateLimit: true, Routes: routes}, "/users/me", 3, 160},
		"no route":      {cfg, ratelimit.ServerOptions{XRateLimit: true, Routes: routes}, "/export", 8, 320}, // a ServeMux allocates for what only "/" matches
		"all fields":    {cfg, ratelimit.ServerOptions{XRateLimit: true, RateLimit: true}, "/", 8, 320},
		"refused":       {ratelimit.Config{Limit: ratelimit.PerHour(1)}, ratelimit.ServerOptions{}, "/", 4, 256},
		"refused, X":    {ratelimit.Config{Limit: ratelimit.PerHour(1)}, ratelimit.ServerOptions{XRateLimit: true}, "/", 5, 256},
	} {
		times, bytes := allocated(tt.cfg, tt.opts, tt.target)
		require.LessOrEqual(t, times, tt.times+0.1, name) // the runtime allocates too
		require.LessOrEqual(t, bytes, tt.bytes+8, name)
	}
}

func BenchmarkServer(b *testing.B) {
	plenty := ratelimit.PerSecond(1 << 30)
	for _, keys := range []int{1, 100_000} {
		requests := make([]*http.Request, keys)
		for i := range requests {
			requests[i] = request(http.MethodGet, "/users/me")
			requests[i].RemoteAddr = "10." + strconv.Itoa(i>>16) + "." + strconv.Itoa(i>>8&255) + "." + strconv.Itoa(i&255) + ":4711"
		}
		for name, tt := range map[string]struct {
			limit ratelimit.Limit
			opts  ratelimit.ServerOptions
		}{
			"no fields":  {plenty, ratelimit.ServerOptions{}},
			"X":          {plenty, ratelimit.ServerOptions{XRateLimit: true}},
			"all fields": {plenty, ratelimit.ServerOptions{XRateLimit: true, RateLimit: true}},
			"bucket, X":  {ratelimit.TokenBucket(1<<30, time.Second, 1<<30), ratelimit.ServerOptions{XRateLimit: true}},
			"refused":    {ratelimit.PerHour(1), ratelimit.ServerOptions{XRateLimit: true}},
			"route":      {plenty, ratelimit.ServerOptions{Routes: []ratelimit.Route{{Pattern: "/users/me"}, {Pattern: "POST /users"}}}},
			"wildcard":   {plenty, ratelimit.ServerOptions{Routes: []ratelimit.Route{{Pattern: "/users/{id}"}, {Pattern: "POST /users"}}}},
		} {
			handler := core.Must(ratelimit.NewServer(core.Must(ratelimit.New(ratelimit.Config{Limit: tt.limit})), tt.opts)).Handler(http.HandlerFunc(quick))
			b.Run(name+"/"+strconv.Itoa(keys), func(b *testing.B) {
				b.ReportAllocs()
				w := &sink{header: http.Header{}}
				i := 0
				for b.Loop() {
					clear(w.header)
					handler.ServeHTTP(w, requests[i])
					if i++; i == keys {
						i = 0
					}
				}
			})
		}
	}
}
