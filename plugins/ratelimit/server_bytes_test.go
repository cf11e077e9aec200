package ratelimit_test

import (
	"net/http"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	limiter "github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/recorder"
	"github.com/gresil/gresil/plugins/ratelimit"
	"github.com/gresil/gresil/server"
)

// bytesOf returns the bytes that one call of f allocates.
func bytesOf(tb testing.TB, runs int, f func()) float64 {
	tb.Helper()
	f()
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range runs {
		f()
	}
	runtime.ReadMemStats(&after)
	return float64(after.TotalAlloc-before.TotalAlloc) / float64(runs)
}

// Not parallel: it counts bytes.
func TestServer_BytesOfARequest(t *testing.T) {
	for name, tt := range map[string]struct {
		headers          ratelimit.HeaderStyle
		allowed, refused float64
	}{
		"no fields":  {0, 256, 256},
		"X":          {ratelimit.HeaderXRateLimit, 384, 256},
		"draft 03":   {ratelimit.HeaderDraft03, 384, 256},
		"draft 10":   {ratelimit.HeaderDraft10, 640, 256},
		"all fields": {allHeaders, 640, 256},
	} {
		for _, refused := range []bool{false, true} {
			limit, most := ratelimit.FixedWindow(1<<20, 1<<50), tt.allowed
			if refused {
				limit, most = ratelimit.PerHour(1), tt.refused
			}
			plugin := core.Must(ratelimit.NewServer(ratelimit.ServerConfig{Limit: limit, Headers: tt.headers}))
			h, w, r := plugin.Handler(http.HandlerFunc(quick)), &sink{header: http.Header{}}, request(http.MethodGet, "/")
			h.ServeHTTP(w, r)
			got := bytesOf(t, 10_000, func() {
				clear(w.header)
				h.ServeHTTP(w, r)
			})
			require.LessOrEqual(t, got, most+8, "%s, refused: %t", name, refused) // the runtime allocates too
			require.NoError(t, plugin.Close())
		}
	}
}

// The body is the same for each wait, which the header has.
func TestARefusalHasTheSameBodyWhateverTheWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, headers := range []ratelimit.HeaderStyle{0, everyHeader} {
			for _, accept := range []string{"application/json", "text/plain"} {
				bodies := map[string]bool{}
				for _, limit := range []ratelimit.Limit{ratelimit.PerMinute(1), ratelimit.PerHour(1), ratelimit.TokenBucket(1, 1<<40, 1)} {
					s := serve(t, ratelimit.ServerConfig{Limit: limit, Headers: headers})
					fetch(s, "/")
					w := fetch(s, "/", "Accept", accept)
					require.Equal(t, http.StatusTooManyRequests, w.Code)
					require.NotEmpty(t, w.Header().Get("Retry-After"))
					require.Contains(t, w.Body.String(), "Rate limit exceeded.")
					bodies[w.Body.String()] = true
				}
				require.Len(t, bodies, 1)
			}
		}
	})
}

// The error of a prepared refusal is that of the request, not of the rule.
func TestAnOuterRecorderSeesTheRefusalOfTheRequest(t *testing.T) {
	t.Parallel()
	s := serve(t, ratelimit.ServerConfig{Name: "api", Limit: ratelimit.PerHour(1), Key: server.Header("User")})
	for _, user := range []string{"ann", "bob"} {
		fetch(s, "/", "User", user)
		var rejected error
		fetch(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			rec := new(recorder.Recorder)
			w = rec.Wrap(w)
			s.ServeHTTP(w, r)
			rejected = rec.Rejected()
		}), "/", "User", user)
		var limited *limiter.LimitedError
		require.ErrorAs(t, rejected, &limited)
		require.Equal(t, "api", limited.Name)
		after, ok := core.RetryAfter(rejected)
		require.True(t, ok)
		require.Positive(t, after)
	}
}
