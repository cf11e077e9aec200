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
	for _, opts := range []ratelimit.ServerOptions{{RateLimit: true}, {XRateLimit: true}} {
		h := serve(t, ratelimit.Config{Limit: ratelimit.PerMinute(1)}, opts)
		for _, status := range []int{http.StatusOK, http.StatusTooManyRequests} {
			resp := fetch(h, "/").Result()
			require.Equal(t, status, resp.StatusCode)
			wait, _ := client.RetryAfter(resp)
			require.InDelta(t, time.Minute, wait, float64(30*time.Second), "%d %v", status, resp.Header)
		}
	}
}
