package ratelimit_test

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/plugins/ratelimit"
)

func TestHundredPerMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, ratelimit.ServerConfig{Limit: ratelimit.PerMinute(101), Headers: ratelimit.HeaderDraft10})
		fetch(s, "/") // the window begins
		time.Sleep(10 * time.Second)
		for i := range 100 {
			w := fetch(s, "/")
			require.Equal(t, 200, w.Code)
			require.Equal(t, fmt.Sprintf(`"default";r=%d;t=50`, 99-i), w.Header().Get("RateLimit"))
			require.Equal(t, `"default";q=101;w=60`, w.Header().Get("RateLimit-Policy"))
		}
		w := fetch(s, "/")
		require.Equal(t, 429, w.Code)
		require.Equal(t, `"default";r=0;t=50`, w.Header().Get("RateLimit"))
		require.Equal(t, "50", w.Header().Get("Retry-After"))
		require.Equal(t, "application/problem+json", w.Header().Get("Content-Type"))
		require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
		time.Sleep(50*time.Second - 1)
		require.Equal(t, 429, fetch(s, "/").Code, "a nanosecond too early")
		time.Sleep(time.Nanosecond)
		require.Equal(t, 200, fetch(s, "/").Code)
	})
}

func TestNamesAreQuoted(t *testing.T) {
	t.Parallel()
	s := serve(t, ratelimit.ServerConfig{Name: `a"b\c`, Headers: ratelimit.HeaderDraft10})
	require.Equal(t, `"a\"b\\c";q=1000;w=60`, fetch(s, "/").Header().Get("RateLimit-Policy"))
	for _, name := range []string{"naïve", "a\nb", "a\x7f"} {
		_, err := ratelimit.NewServer(ratelimit.ServerConfig{Name: name, Headers: ratelimit.HeaderDraft10})
		require.ErrorIs(t, err, core.ErrConfig)
		require.ErrorContains(t, err, "ratelimit.ServerConfig.Name = "+strconv.Quote(name))
		serve(t, ratelimit.ServerConfig{Name: name, Headers: ratelimit.HeaderXRateLimit})
	}
	s = serve(t, ratelimit.ServerConfig{Headers: ratelimit.HeaderDraft10, Routes: []ratelimit.Route{{Pattern: "/café", Limit: ratelimit.PerHour(1)}}})
	require.Equal(t, `"/caf%C3%A9";q=1;w=3600`, fetch(s, "/caf%C3%A9").Header().Get("RateLimit-Policy"))
}

func TestResetIsAUnixTimeRoundedUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, ratelimit.ServerConfig{Limit: ratelimit.FixedWindow(1, 1500*time.Millisecond), Headers: ratelimit.HeaderXRateLimit})
		start := time.Now() // midnight
		reset := func() int64 {
			w := fetch(s, "/")
			require.Equal(t, "1", w.Header().Get("X-RateLimit-Limit"))
			require.Equal(t, "0", w.Header().Get("X-RateLimit-Remaining"))
			n, err := strconv.ParseInt(w.Header().Get("X-RateLimit-Reset"), 10, 64)
			require.NoError(t, err)
			return n - start.Unix()
		}
		time.Sleep(time.Second)
		require.EqualValues(t, 3, reset())
		time.Sleep(1500 * time.Millisecond)
		require.EqualValues(t, 4, reset())
		time.Sleep(500 * time.Millisecond)
		require.EqualValues(t, 4, reset(), "refused")
		time.Sleep(1600 * time.Millisecond)
		require.EqualValues(t, 7, reset(), "4.6 + 1.5")
	})
}

func TestHeaders_Remaining(t *testing.T) {
	t.Parallel()
	all := ratelimit.HeaderDraft10 | ratelimit.HeaderXRateLimit
	s := serve(t, ratelimit.ServerConfig{Limit: ratelimit.PerHour(5), Weight: cost, Headers: all})
	for i, tt := range []struct{ cost, remaining string }{{"2", "3"}, {"2", "1"}, {"1", "0"}, {"2", "0"}, {"10", "0"}, {"1", "0"}} {
		w := fetch(s, "/", "Cost", tt.cost)
		require.Equal(t, tt.remaining, w.Header().Get("X-RateLimit-Remaining"), i)
		requireReset(t, w.Header(), time.Hour)
		require.Equal(t, `"default";r=`+tt.remaining+`;t=3600`, w.Header().Get("RateLimit"))
	}
}

func TestHeaders_Draft10(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			limit             ratelimit.Limit
			cost              string
			policy, rateLimit string
		}{
			{ratelimit.TokenBucket(10, time.Second, 20), "1", `"default";q=20;w=2`, `"default";r=19;t=1`},
			{ratelimit.TokenBucket(3, 10*time.Second, 4), "2", `"default";q=4;w=14`, `"default";r=2;t=4`},
			{ratelimit.FixedWindow(5, 250*time.Millisecond), "5", `"default";q=5`, `"default";r=0;t=1`},
			{ratelimit.TokenBucket(1000, time.Second, 10), "1", `"default";q=10`, `"default";r=9;t=1`},
			{ratelimit.FixedWindow(5, 1500*time.Millisecond), "1", `"default";q=5;w=2`, `"default";r=4;t=2`},
			{ratelimit.TokenBucket(3, 6*time.Second+1, 1), "1", `"default";q=1;w=3`, `"default";r=0;t=3`}, // a third of a nanosecond too long for 2
			{ratelimit.PerHour(5), "0", `"default";q=5;w=3600`, `"default";r=5`},
			{ratelimit.TokenBucket(1<<38, 365*24*time.Hour, 1<<38), "0", `"default";q=274877906944;w=31536000`, `"default";r=274877906944`},
		} {
			s := serve(t, ratelimit.ServerConfig{Limit: tt.limit, Weight: cost, Headers: ratelimit.HeaderDraft10})
			w := fetch(s, "/", "Cost", tt.cost)
			require.Equal(t, 200, w.Code)
			require.Equal(t, tt.policy, w.Header().Get("RateLimit-Policy"), tt.limit)
			require.Equal(t, tt.rateLimit, w.Header().Get("RateLimit"), tt.limit)
		}
	})
}

func TestHeaders_StylesAreChosen(t *testing.T) {
	t.Parallel()
	fields := map[ratelimit.HeaderStyle][]string{
		ratelimit.HeaderDraft10:    {"Ratelimit", "Ratelimit-Policy"},
		ratelimit.HeaderDraft03:    {"Ratelimit-Limit", "Ratelimit-Remaining", "Ratelimit-Reset"},
		ratelimit.HeaderXRateLimit: {"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset"},
	}
	for _, style := range []ratelimit.HeaderStyle{0, 1, 2, 3, 4, 5, 6, 7} {
		want := []string{"X-Rate-Limited"}
		for bit, names := range fields {
			if style&bit != 0 {
				want = append(want, names...)
			}
		}
		var got []string
		for name := range fetch(serve(t, ratelimit.ServerConfig{Headers: style}), "/").Header() {
			got = append(got, name)
		}
		require.ElementsMatch(t, want, got, style)
	}
}

func TestHeaders_NestedXRateLimitTellsTheLeast(t *testing.T) {
	t.Parallel()
	cfg := ratelimit.ServerConfig{Headers: ratelimit.HeaderXRateLimit}
	for _, tt := range []struct {
		outer, inner int64
		want         string
	}{{10, 5, "5"}, {5, 10, "5"}, {7, 7, "7"}} {
		outer := serve(t, with(cfg, func(c *ratelimit.ServerConfig) { c.Limit = ratelimit.PerHour(tt.outer) }))
		inner := serve(t, with(cfg, func(c *ratelimit.ServerConfig) { c.Limit = ratelimit.PerMinute(tt.inner) }))
		w := fetch(outer.plugin.Handler(inner), "/")
		require.Equal(t, []string{tt.want}, w.Header().Values("X-RateLimit-Limit"))
	}
}

// The fields share memory, which must not show.
func TestHeaders_CanBeChangedByTheHandler(t *testing.T) {
	t.Parallel()
	s := serve(t, ratelimit.ServerConfig{Name: "api", Headers: ratelimit.HeaderDraft10 | ratelimit.HeaderXRateLimit})
	h := s.plugin.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h.Add("X-Rate-Limited", "more")
		h["Ratelimit-Policy"][0] = "changed"
		h.Add("RateLimit", "upstream")
	}))
	for i := range 2 {
		w := fetch(h, "/")
		require.Equal(t, []string{"false"}, w.Header().Values("X-Rate-Limited"), "it has one value")
		require.Equal(t, []string{`"api";q=1000;w=60`, "changed"}, w.Header().Values("RateLimit-Policy"), "a list stays ours and theirs")
		require.Equal(t, []string{fmt.Sprintf(`"api";r=%d;t=60`, 999-i), "upstream"}, w.Header().Values("RateLimit"))
		require.Equal(t, strconv.Itoa(999-i), w.Header().Get("X-RateLimit-Remaining"))
	}
	require.Equal(t, `"api";q=1000;w=60`, fetch(s, "/").Header().Get("RateLimit-Policy"))
}

func TestHeaders_LongNames(t *testing.T) {
	t.Parallel()
	name := fmt.Sprintf("%0200d", 0)
	s := serve(t, ratelimit.ServerConfig{Name: name, Headers: ratelimit.HeaderDraft10 | ratelimit.HeaderXRateLimit})
	w := fetch(s, "/")
	require.Equal(t, `"`+name+`";r=999;t=60`, w.Header().Get("RateLimit"))
	require.Equal(t, "1000", w.Header().Get("X-RateLimit-Limit"))
	require.Equal(t, "999", w.Header().Get("X-RateLimit-Remaining"))
	requireReset(t, w.Header(), time.Minute)
}

// requireReset asserts the time until X-RateLimit-Reset.
func requireReset(t *testing.T, h http.Header, want time.Duration) {
	t.Helper()
	require.Len(t, h.Values("X-RateLimit-Reset"), 1)
	unix, err := strconv.ParseInt(h.Get("X-RateLimit-Reset"), 10, 64)
	require.NoError(t, err)
	require.InDelta(t, want, time.Until(time.Unix(unix, 0)), float64(30*time.Second))
}

func TestHeaderStyle_String(t *testing.T) {
	t.Parallel()
	for style, want := range map[ratelimit.HeaderStyle]string{
		0: "none", ratelimit.HeaderDraft10: "draft10", ratelimit.HeaderXRateLimit: "x", ratelimit.HeaderDraft03: "draft03",
		ratelimit.HeaderDraft10 | ratelimit.HeaderXRateLimit: "draft10+x",
		ratelimit.HeaderDraft03 | ratelimit.HeaderXRateLimit: "x+draft03", 7: "draft10+x+draft03", 8: "HeaderStyle(8)",
	} {
		require.Equal(t, want, style.String())
	}
}
