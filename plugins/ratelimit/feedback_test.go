package ratelimit_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/plugins/ratelimit"
)

// What a server of this package writes, its client understands, in each style.
func TestClientReadsWhatServerWrites(t *testing.T) {
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
			wait, _ := client.RetryAfter(resp)
			require.InDelta(t, time.Minute, wait, float64(30*time.Second), "%v %d %v", style, status, resp.Header)
		}
	}
}
