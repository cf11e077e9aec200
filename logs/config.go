package logs

import (
	"time"

	"github.com/gresil/gresil/core"
)

// DefaultWarnEvery is the WarnEvery of a Config that does not say.
const DefaultWarnEvery = time.Minute

// Config configures an [Adapter]. The zero value is ready to use.
type Config struct {
	// Calls logs single calls, at Debug. If false, calls are not observed, and cost
	// nothing more. With it each call through a limiter copies its key, and each call
	// through a breaker reads the clock twice, also while the logger drops Debug.
	Calls bool
	// Keys adds the keys of limiters and of breakers in a group, as the attribute key.
	// If false, no record has one: they may be addresses of people, or secrets.
	Keys bool
	// WarnEvery is the least time between two warnings of one sort about one
	// instance. If zero, DefaultWarnEvery is used. It must not be negative.
	WarnEvery time.Duration
}

// Validate reports every field that cannot be used, joined.
func (c Config) Validate() error {
	if c.WarnEvery < 0 {
		return &core.ConfigError{Field: "logs.Config.WarnEvery", Value: c.WarnEvery, Reason: "must be >= 0 (0 means 1m0s)"}
	}
	return nil
}

func (c Config) warnEvery() time.Duration {
	if c.WarnEvery == 0 {
		return DefaultWarnEvery
	}
	return c.WarnEvery
}
