package ratelimit

import "time"

// xRateLimit are the fields of HeaderXRateLimit. The reset is the Unix time at which the
// key is full.
var xRateLimit = trio{ //nolint:gochecknoglobals // a constant
	HeaderXRateLimit, "X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset", func(_, full time.Duration) int64 {
		now := time.Now()
		return now.Unix() + seconds(time.Duration(now.Nanosecond())+full)
	},
}
