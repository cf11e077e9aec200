package ratelimittest

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
)

// Capacity returns the highest cost that a limit can allow at once.
func Capacity(l ratelimit.Limit) int64 {
	least := int64(limits.MaxPermits)
	for _, s := range limits.Limit(l).Specs() {
		least = min(least, limits.Capacity(s))
	}
	return least
}

// Aligned returns an AlignedWindow of period or, if that is an hour or longer and ends in the next ten minutes, of the least multiple of it
// that does not: so it does not end during a test. Two calls can return different ones.
func Aligned(n int64, period time.Duration) ratelimit.Limit {
	long := period
	for long >= time.Hour && long-time.Duration(time.Now().UnixNano())%long < 10*time.Minute {
		long += period
	}
	return ratelimit.AlignedWindow(n, long)
}

// SetLimit changes the limit of a limiter.
func SetLimit(tb testing.TB, l *ratelimit.Limiter, limit ratelimit.Limit) {
	tb.Helper()
	cfg := l.Config()
	cfg.Limit = limit
	require.NoError(tb, l.SetConfig(cfg))
}

// Under returns a limiter under a limit, which it adds to the Config.
func Under(tb testing.TB, l *ratelimit.Limiter, limit ratelimit.Limit) *ratelimit.Limiter {
	tb.Helper()
	name := strings.NewReplacer("/", "-", " ", "_").Replace(limit.String())
	if cfg := l.Config(); cfg.Limits[name] != limit {
		cfg.Limits[name] = limit
		require.NoError(tb, l.SetConfig(cfg))
	}
	return l.Under(name)
}
