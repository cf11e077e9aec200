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

var started = time.Now() //nolint:gochecknoglobals // the start of the process

// Aligned returns an AlignedWindow that does not end while the tests run: that of period, if it is shorter than an hour or ends later than
// ten minutes after their start, and otherwise that of its next multiple that does.
func Aligned(n int64, period time.Duration) ratelimit.Limit {
	long := period
	for long >= time.Hour && long-time.Duration(started.UnixNano())%long < 10*time.Minute {
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
