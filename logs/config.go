package logs

import (
	"cmp"
	"time"

	"github.com/gresil/gresil/core"
)

// Config configures an [Adapter]. The zero value is ready to use.
type Config struct {
	// Calls logs single calls, at Debug. Each call through a limiter then copies its
	// key, and each call through a breaker reads the clock twice, even while the logger
	// drops Debug. If false, calls are not observed, at no cost.
	Calls bool
	// Keys adds the keys of limiters, cooldowns, bulkheads, dispatchers and breakers in a
	// group, as the attribute key. If false, no record has one: keys can be secrets, or addresses of
	// people. Errors are written as they are in any case.
	Keys bool
	// WarnEvery is the minimum time between two warnings of one sort about one
	// instance. If zero, it is a minute. It must not be negative.
	WarnEvery time.Duration
}

// Validate reports every field that cannot be used, joined.
func (c Config) Validate() error {
	if c.WarnEvery < 0 {
		return &core.ConfigError{Field: "logs.Config.WarnEvery", Value: c.WarnEvery, Reason: "must be >= 0 (0 means 1m0s)"}
	}
	return nil
}

func (c Config) warnEvery() time.Duration { return cmp.Or(c.WarnEvery, time.Minute) }
