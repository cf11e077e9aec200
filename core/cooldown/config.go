package cooldown

import (
	"cmp"
	"fmt"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/identity"
	"github.com/gresil/gresil/internal/validate"
)

// Defaults of a [Config].
const (
	defaultMaxQueue     = 1000
	defaultMaxHold      = 10 * time.Minute
	defaultProbeTimeout = 10 * time.Second
	defaultMaxKeys      = 1 << 16

	longestHold = 365 * 24 * time.Hour // the limit of Config.MaxHold
)

// Config configures a [Cooldown]. The zero value is ready to use.
//
// A Config is a plain value: copy it to derive another one from it.
type Config struct {
	// Name names the cooldown. If empty, it is "default".
	Name string
	// Registry is where the cooldown is found under the kind "cooldown" and its
	// name. If nil, it is in none.
	Registry *core.Registry
	// MaxWait is how long a call waits at most; one that would wait longer, or past
	// the deadline of its context, is rejected at once, or as soon as a longer hold
	// makes it so. If zero, it is 10 seconds. If negative, there is no limit but
	// that deadline.
	MaxWait time.Duration
	// MaxQueue is how many calls may wait for a key at a time; one more is rejected.
	// If zero, it is 1,000. If negative, none may.
	MaxQueue int
	// MaxHold is how long a key is held at most: a longer hold is cut to it. If zero,
	// it is 10 minutes. It is at most 365 days.
	MaxHold time.Duration
	// ProbeTimeout is how long a call after a hold occupies its slot. The outcome of a
	// longer call still counts. If zero, it is 10 seconds. It must not be
	// negative.
	ProbeTimeout time.Duration
	// MaxKeys is how many keys are held at most; with one more, the hold that ends
	// first is forgotten. If zero, it is 65,536. It must not be negative.
	MaxKeys int
	// Keep remembers a key until a call succeeds. If it is false, a key is forgotten too
	// after an idle time as long as its hold.
	Keep bool
	// Store shares the holds with the other cooldowns of the Name in it, in every process. It
	// must be usable as long as the cooldown, which does not close it. If nil, holds are those
	// of this process.
	Store Store
}

// Validate reports every field that cannot be used, joined. Each is a
// [*core.ConfigError].
func (c Config) Validate() error {
	check := validate.Of("cooldown.Config")
	check.That(c.MaxHold >= 0 && c.MaxHold <= longestHold, "MaxHold", c.MaxHold, fmt.Sprintf("must be > 0 and <= %v (0 means %v)", longestHold, defaultMaxHold))
	check.That(c.ProbeTimeout >= 0, "ProbeTimeout", c.ProbeTimeout, fmt.Sprintf("must be > 0 (0 means %v)", defaultProbeTimeout))
	check.That(c.MaxKeys >= 0, "MaxKeys", c.MaxKeys, fmt.Sprintf("must be > 0 (0 means %d)", defaultMaxKeys))
	check.That(c.Store == nil || !identity.Missing(c.Store), "Store", "a nil pointer", "must be a store, or nil for holds of this process")
	return check.Err()
}

// resolved returns c with its defaults.
func resolved(c *Config) Config {
	r := *c
	r.MaxQueue = cmp.Or(c.MaxQueue, defaultMaxQueue)
	r.MaxHold = cmp.Or(c.MaxHold, defaultMaxHold)
	r.ProbeTimeout = cmp.Or(c.ProbeTimeout, defaultProbeTimeout)
	r.MaxKeys = cmp.Or(c.MaxKeys, defaultMaxKeys)
	return r
}
