package timeout

import (
	"time"

	"github.com/gresil/gresil/core"
)

// Config configures a [Timeout]. The zero value is ready to use: 30 seconds.
//
// A Config is a plain value: copy it to derive another one from it.
type Config struct {
	// Name names the timeout, also in its errors. If empty, it is "default".
	Name string
	// Registry registers the timeout under the kind "timeout" and its name. If nil, it
	// is not registered.
	Registry *core.Registry

	// Limit is the time that an operation may take. If zero, it is 30 seconds.
	// If negative, there is no limit.
	Limit time.Duration
}

// Validate returns nil: every value of every field can be used.
func (c Config) Validate() error { return nil }
