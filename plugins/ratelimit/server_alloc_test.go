package ratelimit_test

import (
	"net/http"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	coreratelimit "github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/plugins/ratelimit"
	"github.com/gresil/gresil/server"
)

// sink is a writer that allocates nothing.
type sink struct{ header http.Header }

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) Write(p []byte) (int, error) { return len(p), nil }
func (s *sink) WriteHeader(int)             {}

func quick(http.ResponseWriter, *http.Request) {}

func mallocsOf(tb testing.TB, runs int, f func()) float64 {
	tb.Helper()
	f()
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range runs {
		f()
	}
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / float64(runs)
}

const allHeaders = ratelimit.HeaderDraft10 | ratelimit.HeaderXRateLimit

// Not parallel: it counts allocations.
func TestServer_AllowedRequestAllocatesAtMostThreeTimes(t *testing.T) {
	many := ratelimit.FixedWindow(1<<20, 1<<50)
	routes := []ratelimit.Route{{Pattern: "POST /export", Limit: many}, {Pattern: "GET /users/me", Limit: many}}
	for name, tt := range map[string]struct {
		cfg    ratelimit.ServerConfig
		target string
		most   float64 // the promise is 3: one for all there is about the request, and one for a key that is composed
	}{
		"all headers":      {ratelimit.ServerConfig{Limit: many, Headers: allHeaders}, "/", 1.1},
		"bucket":           {ratelimit.ServerConfig{Limit: ratelimit.TokenBucket(1<<20, 1<<30, 1<<20), Headers: allHeaders}, "/", 1.1},
		"literal route":    {ratelimit.ServerConfig{Limit: many, Headers: allHeaders, Routes: routes}, "/users/me", 2.1},
		"no route matches": {ratelimit.ServerConfig{Limit: many, Headers: allHeaders, Routes: routes}, "/export", 1.1},
		"tier":             {ratelimit.ServerConfig{Headers: allHeaders, Tier: func(*http.Request) ratelimit.Limit { return many }}, "/", 1.1},
		"composed key":     {ratelimit.ServerConfig{Limit: many, Headers: allHeaders, Key: server.FirstOf(server.Header("X-API-Key"), server.ClientIP)}, "/", 2.1},
	} {
		plugin := core.Must(ratelimit.NewServer(tt.cfg))
		h, w, r := plugin.Handler(http.HandlerFunc(quick)), &sink{header: http.Header{}}, request(http.MethodGet, tt.target)
		got := mallocsOf(t, 10_000, func() {
			clear(w.header)
			h.ServeHTTP(w, r)
		})
		require.LessOrEqual(t, got, tt.most, name)
		require.NotEmpty(t, w.header["Ratelimit"], name)
		require.Equal(t, []string{"false"}, w.header["X-Rate-Limited"], name)
		require.NoError(t, plugin.Close())
	}
}

func BenchmarkServer(b *testing.B) {
	for _, keys := range []int{1, 100_000} {
		requests := make([]*http.Request, keys)
		for i := range requests {
			requests[i] = request(http.MethodGet, "/")
			requests[i].RemoteAddr = "10." + strconv.Itoa(i>>16) + "." + strconv.Itoa(i>>8&255) + "." + strconv.Itoa(i&255) + ":4711"
		}
		for name, handler := range map[string]http.Handler{
			"floor: take, draft10": floor(),
			"no headers":           core.Must(ratelimit.NewServer(ratelimit.ServerConfig{Limit: ratelimit.PerSecond(1 << 30)})).Handler(http.HandlerFunc(quick)),
			"draft10":              core.Must(ratelimit.NewServer(ratelimit.ServerConfig{Limit: ratelimit.PerSecond(1 << 30), Headers: ratelimit.HeaderDraft10})).Handler(http.HandlerFunc(quick)),
			"x":                    core.Must(ratelimit.NewServer(ratelimit.ServerConfig{Limit: ratelimit.PerSecond(1 << 30), Headers: ratelimit.HeaderXRateLimit})).Handler(http.HandlerFunc(quick)),
			"all headers":          core.Must(ratelimit.NewServer(ratelimit.ServerConfig{Limit: ratelimit.PerSecond(1 << 30), Headers: allHeaders})).Handler(http.HandlerFunc(quick)),
			"all headers, bucket":  core.Must(ratelimit.NewServer(ratelimit.ServerConfig{Limit: ratelimit.TokenBucket(1<<30, time.Second, 1<<30), Headers: allHeaders})).Handler(http.HandlerFunc(quick)),
			"refused":              core.Must(ratelimit.NewServer(ratelimit.ServerConfig{Limit: ratelimit.PerHour(1), Headers: ratelimit.HeaderDraft10})).Handler(http.HandlerFunc(quick)),
		} {
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

// floor takes a permit by a key that is at hand, and sets three fields that never
// change.
func floor() http.Handler {
	limiter := core.Must(coreratelimit.New(coreratelimit.Config{Limit: ratelimit.PerSecond(1 << 30)}))
	limited, policy, limit := []string{"false"}, []string{`"default";q=1073741824;w=1`}, []string{`"default";r=1073741823;t=1`}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if result, err := limiter.Take(r.Context(), r.RemoteAddr, 1); err != nil || !result.Allowed {
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		h := w.Header()
		h["X-Rate-Limited"], h["Ratelimit-Policy"], h["Ratelimit"] = limited, policy, limit
	})
}
