package share

import "github.com/gresil/gresil/core"

// Config configures a store. The zero value is ready to use.
type Config struct {
	// Name is the name of the store in its Registry. If empty, it is "default".
	Name string
	// Registry registers the store under the kind "store" and its name, with the counters of the store that it wraps: do not
	// register both. If nil, it is not registered.
	Registry *core.Registry
	// Instances is the number of processes that share the limits, for a store that does not count them. If zero, it is 1.
	// It is ignored for a store that counts them, such as redisstore. It must not be negative.
	Instances int
}

// Validate reports every field that cannot be used, joined. Each is a *core.ConfigError.
func (c Config) Validate() error {
	if c.Instances < 0 {
		return &core.ConfigError{Field: "share.Config.Instances", Value: c.Instances, Reason: "must be >= 0 (0 means 1)"}
	}
	return nil
}
