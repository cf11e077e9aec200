package share

import (
	"cmp"

	"github.com/gresil/gresil/core"
)

// Config configures a store. The zero value is ready to use.
//
// A Config is a plain value: copy it to derive another one from it.
type Config struct {
	// Name is the name of the store in its Registry. If empty, it is "default".
	Name string
	// Registry is where the store is registered, as kind "ratelimitstore", with the counters of the
	// store that it wraps: do not register both. If nil, the store is not registered.
	Registry *core.Registry
	// Instances is the number of processes that share the limits, for a store that does not count
	// them. If zero, such a store has one. A store that counts them, as redisstore does, ignores
	// this field. It must not be negative.
	Instances int
}

// Validate reports every field that cannot be used.
func (c Config) Validate() error {
	if c.Instances < 0 {
		return &core.ConfigError{Field: "share.Config.Instances", Value: c.Instances, Reason: "must be >= 0 (0 means 1)"}
	}
	return nil
}

func (c Config) name() string { return cmp.Or(c.Name, "default") }
