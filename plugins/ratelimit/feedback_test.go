package ratelimit_test

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/plugins/ratelimit"
)

// asked is what a response with some fields asks for, at one second past firstOf2026. A
// field is a line "name: value".
func asked(status int, fields ...string) time.Duration {
	h := http.Header{}
	for _, f := range fields {
		name, value, _ := strings.Cut(f, ": ")
		h.Add(name, value)
	}
	return ratelimit.DefaultFeedback(&http.Response{StatusCode: status, Header: h}, time.Unix(firstOf2026+1, 0))
}

const firstOf2026 = 1767225600

func TestAsked(t *testing.T) {
	t.Parallel()
	const dated = "Date: Thu, 01 Jan 2026 00:00:00 GMT"
	unix := func(d time.Duration) string { return strconv.FormatInt(firstOf2026+int64(d/time.Second), 10) }
	for _, c := range []struct {
		what   string
		status int
		fields []string
		want   time.Duration
	}{
		{"nothing", 429, nil, 0},
		{"Retry-After of a 429", 429, []string{"Retry-After: 5"}, 5 * time.Second},
		{"Retry-After of a 503", 503, []string{"Retry-After: Thu, 01 Jan 2026 00:00:09 GMT"}, 8 * time.Second},
		{"Retry-After of a redirect", 301, []string{"Retry-After: 5"}, 0},
		{"of a success", 200, []string{"Retry-After: 5"}, 0},
		{"Retry-After wins", 429, []string{"Retry-After: 5", `RateLimit: "a";r=0;t=9`}, 5 * time.Second},
		{"even if it is 0", 429, []string{"Retry-After: 0", `RateLimit: "a";r=0;t=9`}, 0},
		{"a malformed one is none", 429, []string{"Retry-After: -5", `RateLimit: "a";r=0;t=9`}, 9 * time.Second},
		{"overflow", 429, []string{"Retry-After: 99999999999999999999"}, math.MaxInt64},

		{"draft 10", 200, []string{`RateLimit: "default";r=0;t=50`}, 50 * time.Second},
		{"something left", 200, []string{`RateLimit: "default";r=1;t=50`}, 0},
		{"the longest of those with nothing left", 429, []string{`RateLimit: "burst";r=0;t=5, "hour";r=0;t=70, "daily";r=812;t=36000`}, 70 * time.Second},
		{"several lines", 429, []string{`RateLimit: "burst";r=0;t=5`, `RateLimit: "hour";r=0;t=70`}, 70 * time.Second},
		{"a partition", 200, []string{`RateLimit: "peruser";r=0;t=10;pk=:dXNlci0xMjM=:`}, 10 * time.Second},
		{"unknown parameters", 200, []string{`RateLimit: "a";x="\"; r=1\\";r=0;b;y=?0;z=1.25;acme-u=tok/en:*;d=@-1;t=10`}, 10 * time.Second},
		{"a token for a name", 200, []string{`RateLimit: default;r=0;t=10`}, 10 * time.Second},
		{"of a concurrency limit", 200, []string{`RateLimit: "inflight";r=0`}, 0},
		{"the last of duplicates", 200, []string{`RateLimit: "a";r=1;t=9;r=0;t=8`}, 8 * time.Second},
		{"blanks", 200, []string{"RateLimit:   \"a\";  r=0; t=8 \t,\t\"b\";r=0;t=9\t"}, 9 * time.Second},
		{"a decimal", 200, []string{`RateLimit: "a";r=0;t=9.5`}, 0},
		{"a decimal beside another", 200, []string{`RateLimit: "a";r=0.0;t=9, "b";r=0;t=3`}, 3 * time.Second},
		{"negative", 200, []string{`RateLimit: "a";r=-1;t=9, "b";r=0;t=-3`}, 0},
		{"a century", 200, []string{`RateLimit: "a";r=0;t=3153600000`}, 876000 * time.Hour},
		{"as long as can be", 200, []string{`RateLimit: "a";r=0;t=999999999999999`}, 9223372036 * time.Second},
		{"16 digits", 200, []string{`RateLimit: "a";r=0;t=9999999999999999, "b";r=0;t=3`}, 0},
		{"a comma at the end", 200, []string{`RateLimit: "a";r=0;t=9,`}, 0},
		{"an empty line", 200, []string{`RateLimit: "a";r=0;t=9`, "RateLimit: "}, 0},
		{"an empty member", 200, []string{`RateLimit: "a";r=0;t=9,,"b"`}, 0},
		{"a string without an end", 200, []string{`RateLimit: "a";r=0;t=9, "b`}, 0},
		{"an upper-case parameter", 200, []string{`RateLimit: "a";R=0;T=9`}, 0},
		{"a blank before the semicolon", 200, []string{`RateLimit: "a" ;r=0;t=9`}, 0},
		{"an inner list", 200, []string{`RateLimit: ("a");r=0;t=9`}, 0},
		{"out of a cache", 200, []string{`RateLimit: "a";r=0;t=9`, "Age: 3"}, 0},
		{"not out of a cache", 200, []string{`RateLimit: "a";r=0;t=9`, "Age: 0"}, 9 * time.Second},

		{"draft 07", 200, []string{"RateLimit: limit=10, remaining=0, reset=7"}, 7 * time.Second},
		{"in another order", 200, []string{"RateLimit: reset=7,remaining=0;x=1"}, 7 * time.Second},
		{"something left", 200, []string{"RateLimit: limit=10, remaining=1, reset=7"}, 0},
		{"no reset", 200, []string{"RateLimit: limit=10, remaining=0"}, 0},
		{"the last of duplicates", 200, []string{"RateLimit: remaining=0, reset=7", "RateLimit: remaining=0, reset=4"}, 4 * time.Second},
		{"both forms", 200, []string{`RateLimit: remaining=0, reset=7, "a";r=0;t=4`}, 0},
		{"a comma at the end", 200, []string{"RateLimit: remaining=0, reset=7,"}, 0},

		{"draft 03", 200, []string{"RateLimit-Limit: 100, 100;w=60", "RateLimit-Remaining: 0", "RateLimit-Reset: 50"}, 50 * time.Second},
		{"something left", 429, []string{"RateLimit-Remaining: 2", "RateLimit-Reset: 50"}, 0},
		{"the later draft wins", 200, []string{`RateLimit: "a";r=3;t=5`, "RateLimit-Remaining: 0", "RateLimit-Reset: 50", "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 60"}, 0},
		{"if it can be read", 200, []string{`RateLimit: "a`, "RateLimit-Remaining: 0", "RateLimit-Reset: 50", "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 60"}, 50 * time.Second},

		{"X-RateLimit", 200, []string{"X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 60"}, time.Minute},
		{"Unix time", 403, []string{"X-RateLimit-Remaining: 0", "X-RateLimit-Reset: " + unix(61*time.Second)}, time.Minute},
		{"milliseconds", 200, []string{"X-RateLimit-Remaining: 0", "X-RateLimit-Reset: " + unix(time.Minute) + "007"}, 59*time.Second + 7*time.Millisecond},
		{"microseconds", 200, []string{"X-RateLimit-Remaining: 0", "X-RateLimit-Reset: " + unix(time.Minute) + "000007"}, 59*time.Second + 7*time.Microsecond},
		{"nanoseconds", 200, []string{"X-RateLimit-Remaining: 0", "X-RateLimit-Reset: " + unix(time.Minute) + "000000007"}, 59*time.Second + 7},
		{"relative to the server's clock", 200, []string{dated, "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: " + unix(time.Minute)}, time.Minute},
		{"but not seconds", 200, []string{"Date: Thu, 01 Jan 2037 00:00:00 GMT", "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 60"}, time.Minute},
		{"past", 200, []string{"X-RateLimit-Remaining: 0", "X-RateLimit-Reset: " + unix(0)}, 0},
		{"long past", 200, []string{"X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 1000000000"}, 0},
		{"the longest that are seconds", 200, []string{"X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 999999999"}, 999999999 * time.Second},
		{"in the year 5000", 200, []string{"X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 95617584000"}, math.MaxInt64},
		{"overflow", 200, []string{"X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 99999999999999999999"}, 0},
		{"blanks", 200, []string{"X-RateLimit-Remaining: \t0 ", "X-RateLimit-Reset: 60 "}, time.Minute},
		{"negative", 200, []string{"X-RateLimit-Remaining: -1", "X-RateLimit-Reset: 60"}, 0},
		{"a negative reset", 200, []string{"X-RateLimit-Remaining: 0", "X-RateLimit-Reset: -60"}, 0},
		{"a fraction", 200, []string{"X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 60.5"}, 0},
		{"words", 200, []string{"X-RateLimit-Remaining: none", "X-RateLimit-Reset: soon"}, 0},
		{"no reset", 200, []string{"X-RateLimit-Remaining: 0"}, 0},
		{"no remaining", 200, []string{"X-RateLimit-Reset: 60"}, 0},
		{"of two servers", 200, []string{"X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 3", "X-RateLimit-Remaining: 7", "X-RateLimit-Reset: 60"}, 3 * time.Second},
		{"one line too few", 200, []string{"X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 3", "X-RateLimit-Reset: 60"}, 0},
	} {
		require.Equal(t, c.want, asked(c.status, c.fields...), "%s: %q", c.what, c.fields)
	}
	require.Zero(t, ratelimit.DefaultFeedback(nil, time.Now()))
	require.Zero(t, ratelimit.DefaultFeedback(&http.Response{StatusCode: http.StatusTooManyRequests}, time.Now()))
}

// What a server of this package writes, its client understands, in each style.
func TestAskedReadsWhatOurServerWrites(t *testing.T) {
	t.Parallel()
	for _, style := range []ratelimit.HeaderStyle{
		ratelimit.HeaderDraft10, ratelimit.HeaderDraft03, ratelimit.HeaderXRateLimit,
	} {
		limits, err := ratelimit.NewServer(ratelimit.ServerConfig{Limit: ratelimit.PerMinute(1), Headers: style})
		require.NoError(t, err)
		h := limits.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		for _, status := range []int{http.StatusOK, http.StatusTooManyRequests} {
			resp := fetch(h, "/").Result()
			require.Equal(t, status, resp.StatusCode)
			require.InDelta(t, time.Minute, ratelimit.DefaultFeedback(resp, time.Now()), float64(30*time.Second), "%v %d %v", style, status, resp.Header)
		}
	}
}
