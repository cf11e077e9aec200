package breaker

import "github.com/gresil/gresil/core/breaker"

type (
	// A Breaker admits or rejects calls: see core/breaker.
	Breaker = breaker.Breaker
	// Config configures a group: see core/breaker.
	Config = breaker.Config
	// A Group has a breaker for each key, such as a host: see core/breaker.
	Group = breaker.Group
	// An OpenError is the error of a call that was not admitted: see core/breaker.
	OpenError = breaker.OpenError
	// A State says whether a breaker admits and counts calls: see core/breaker.
	State = breaker.State
	// A StateChange is the argument of Config.OnStateChange: see core/breaker.
	StateChange = breaker.StateChange
	// Stats are the counts of a breaker or a group: see core/breaker.
	Stats = breaker.Stats
)

// The states.
const (
	Closed      = breaker.Closed
	Open        = breaker.Open
	HalfOpen    = breaker.HalfOpen
	ForcedOpen  = breaker.ForcedOpen
	Disabled    = breaker.Disabled
	MetricsOnly = breaker.MetricsOnly
)

// ErrOpen is matched by an *OpenError.
var ErrOpen = breaker.ErrOpen

// NewGroup makes a group, which can have one breaker or many.
func NewGroup(cfg Config) (*Group, error) { return breaker.NewGroup(cfg) }
