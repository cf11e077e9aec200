package ratelimittest

import (
	"strings"
	"testing"

	"github.com/gresil/gresil/core/ratelimit"
)

// SetLimit changes the limit of a limiter.
func SetLimit(tb testing.TB, l *ratelimit.Limiter, limit ratelimit.Limit) {
	tb.Helper()
	cfg := l.Config()
	cfg.Limit = limit
	if err := l.SetConfig(cfg); err != nil {
		tb.Fatal(err)
	}
}

// Under returns a limiter under a limit, which it adds to the Config.
func Under(tb testing.TB, l *ratelimit.Limiter, limit ratelimit.Limit) *ratelimit.Limiter {
	tb.Helper()
	name := strings.NewReplacer("/", "-", " ", "_").Replace(limit.String())
	if cfg := l.Config(); cfg.Limits[name] != limit {
		cfg.Limits[name] = limit
		if err := l.SetConfig(cfg); err != nil {
			tb.Fatal(err)
		}
	}
	return l.Under(name)
}
