package ratelimit_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	core_ratelimit "github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/plugins/ratelimit"
)

// github is the answer of GitHub when the limit of its search is used up, and not that of
// its other resources.
func github(status int) http.Header {
	h := http.Header{"X-Ratelimit-Limit": {"30"}, "X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"60"}, "X-Ratelimit-Resource": {"search"}}
	if status == http.StatusServiceUnavailable {
		h.Set("Retry-After", "60")
	}
	return h
}

func TestWithoutAKeyOnly429And503HoldAHost(t *testing.T) {
	t.Parallel()
	byAccount := func(req *http.Request) string { return req.Header.Get("Authorization") }
	for name, c := range map[string]struct {
		cfg  ratelimit.ClientConfig
		held map[int]bool // by status
	}{
		"no key":             {ratelimit.ClientConfig{}, map[int]bool{429: true, 503: true}},
		"limit":              {ratelimit.ClientConfig{Limit: core_ratelimit.PerMinute(5)}, map[int]bool{429: true, 503: true}},
		"x/time":             {ratelimit.ClientConfig{Limiter: rate.NewLimiter(5, 5)}, map[int]bool{429: true, 503: true}},
		"key":                {ratelimit.ClientConfig{Key: byAccount}, map[int]bool{200: true, 204: true, 304: true, 403: true, 429: true, 500: true, 503: true}},
		"feedback":           {ratelimit.ClientConfig{Feedback: ratelimit.DefaultFeedback}, map[int]bool{200: true, 204: true, 304: true, 403: true, 429: true, 500: true, 503: true}},
		"feedback of x/time": {ratelimit.ClientConfig{Feedback: ratelimit.DefaultFeedback, Limiter: rate.NewLimiter(5, 5)}, map[int]bool{200: true, 204: true, 304: true, 403: true, 429: true, 500: true, 503: true}},
		"no feedback":        {ratelimit.ClientConfig{Feedback: deaf, Key: byAccount}, nil},
	} {
		for form, fields := range map[string]func(int) http.Header{
			"GitHub": github,
			"draft 10": func(int) http.Header {
				return http.Header{"Ratelimit": {`"POST /export";r=0;t=60;pk=:dXNlcg==:, "all";r=99;t=1`}}
			},
			"draft 07": func(int) http.Header { return http.Header{"Ratelimit": {`limit=5, remaining=0, reset=60`}} },
			"draft 03": func(int) http.Header {
				return http.Header{"Ratelimit-Remaining": {"0"}, "Ratelimit-Reset": {"60"}}
			},
		} {
			t.Run(name+", "+form, func(t *testing.T) {
				t.Parallel()
				for _, status := range []int{200, 204, 304, 403, 429, 500, 503} {
					synctest.Test(t, func(t *testing.T) {
						v := &vendor{answer: func(int, time.Duration) (int, time.Duration, http.Header) {
							return status, 0, fields(status)
						}}
						limits := core.Must(ratelimit.NewClient(c.cfg))
						_, err := limits.Transport(v).RoundTrip(core.Must(http.NewRequest(http.MethodGet, "http://a.test/search", http.NoBody)))
						require.NoError(t, err)
						key := "a.test:80"
						if c.cfg.Key != nil {
							key = ""
						}
						until, held := limits.Cooldown().Until(key)
						require.Equal(t, c.held[status], held, "status %d", status)
						if held {
							require.Equal(t, time.Minute, time.Until(until), "status %d", status)
						}
					})
				}
			})
		}
	}
}

// After a 429 the probe is served with nothing left: that says nothing about the host.
func TestAProbeThatIsServedWithNothingLeftIsASuccess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limits := core.Must(ratelimit.NewClient(ratelimit.ClientConfig{}))
		v := &vendor{answer: func(int, time.Duration) (int, time.Duration, http.Header) { return 200, 0, github(200) }}
		c := &http.Client{Transport: client.New(v, limits)}
		limits.Cooldown().Hold(t.Context(), "a.test:80", time.Second)
		for range 5 {
			require.NoError(t, get(t.Context(), t, c, "http://a.test/"))
		}
		require.Equal(t, []time.Duration{0, 0, 0, 0, 0}, v.starts)
		require.EqualValues(t, 1, limits.Cooldown().Stats().Resumed)
	})
}

// deaf is the Feedback of a client that learns nothing from responses.
func deaf(*http.Response, time.Time) time.Duration { return 0 }
