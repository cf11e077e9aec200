package retry

import (
	"context"
	"math"
	"net/http"
	"time"
)

// FromBackoff makes a Config.Delay of a Backoff of go-retryablehttp and the
// limits that it is called with, as in
//
//	Delay: retry.FromBackoff(retryablehttp.LinearJitterBackoff, time.Second, 30*time.Second)
//
// What it returns is at most limit times the number of the retry, which is what
// LinearJitterBackoff means by its maximum. So a Retry-After of a century, which
// go-retryablehttp's own DefaultBackoff obeys, does no harm; Config.MaxRetryAfter
// is what decides about that header. A limit that is not positive means no wait.
func FromBackoff(f func(least, limit time.Duration, attempt int, resp *http.Response) time.Duration, least, limit time.Duration) func(context.Context, Info) time.Duration {
	return func(_ context.Context, info Info) time.Duration {
		resp, _ := info.Result.(*http.Response)
		retry := max(1, info.Retry) // 0 is no retry at all; then it is as for the first
		most, n := max(0, int64(limit)), int64(retry)
		if most > math.MaxInt64/n {
			n = 1 // longer than anybody waits, this way or that
		}
		return min(f(least, limit, retry-1, resp), time.Duration(most*n))
	}
}
