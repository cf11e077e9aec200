package timeout

import (
	"cmp"
	"time"

	"github.com/gresil/gresil/core"
)

// DefaultName is the name of a [Timeout] whose Config has none.
const DefaultName = "default"

// DefaultLimit is the limit of a Config without one.
const DefaultLimit = 30 * time.Second

// Config configures a [Timeout]. The zero value is ready to use: 30 seconds.
//
// A Config is a plain value: copy it to derive another one from it.
type Config struct {
	// Name names the timeout, also in its errors. If empty, DefaultName is used.
	Name string
	// Registry registers the timeout under the kind "timeout" and its name. If nil, it
	// is not registered.
	Registry *core.Registry

	// Limit is the time that an operation may take. If zero, DefaultLimit is used.
	// If negative, there is no limit.
	Limit time.Duration

	// Hooks observe the timeout. Any of them may be nil.
	Hooks Hooks
}

// With returns a copy of c changed by f; c itself is unchanged.
func (c Config) With(f func(*Config)) Config {
	f(&c)
	return c
}

// Validate returns nil: every value of every field can be used.
func (c Config) Validate() error { return nil }

func (c Config) name() string {
	return cmp.Or(c.Name, DefaultName)
}

func (c Config) limit() time.Duration {
	return cmp.Or(c.Limit, DefaultLimit)
}
