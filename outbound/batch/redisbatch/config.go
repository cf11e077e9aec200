package redisbatch

import (
	"cmp"
	"fmt"

	"github.com/gresil/gresil/internal/validate"
)

const defaultPrefix = "gresil"

// Config configures a [Store]. The zero value is ready to use.
type Config struct {
	// Prefix is the first part of the names of all keys. Stores on one server with different
	// prefixes share nothing. It has 1 to 64 letters, digits or any of "-._:". If empty, it is
	// "gresil".
	Prefix string
}

// Validate reports every field that cannot be used, joined. Each is a [*core.ConfigError].
func (c Config) Validate() error {
	check := validate.Of("redisbatch.Config")
	check.That(len(c.Prefix) <= maxPlain && plain(c.Prefix, true), "Prefix", c.Prefix, fmt.Sprintf("must be up to %d letters, digits or any of -._: (empty means %s)", maxPlain, defaultPrefix))
	return check.Err()
}

func (c Config) prefix() string { return cmp.Or(c.Prefix, defaultPrefix) }
