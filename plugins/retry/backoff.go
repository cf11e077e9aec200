package retry

import (
	"context"
	"math"
	"net/http"
	"time"
)

// FromBackoff returns a Config.Delay that calls a Backoff of go-retryablehttp with
// these limits, as in
//
//	Delay: retry.FromBackoff(retryablehttp.LinearJitterBackoff, time.Second, 30*time.Second)
//
// The wait is at most limit times the number of the retry, the maximum of
// LinearJitterBackoff. So a Retry-After of a century, which go-retryablehttp's own
// DefaultBackoff obeys, does no harm: Config.MaxRetryAfter decides about that header. A
// limit that is not positive means no wait.
func FromBackoff(f func(least, limit time.Duration, attempt int, resp *http.Response) time.Duration, least, limit time.Duration) func(context.Context, Info) time.Duration {
	return func(_ context.Context, info Info) time.Duration {
		resp, _ := info.Result.(*http.Response)
		retry := max(1, info.Retry) // 0 is no retry; it is treated as the first
		most, n := max(0, int64(limit)), int64(retry)
		if most > math.MaxInt64/n {
			n = 1 // the product would overflow
		}
		return min(f(least, limit, retry-1, resp), time.Duration(most*n))
	}
}
