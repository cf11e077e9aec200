package breaker

import "github.com/gresil/gresil/core/breaker"

// What the plugins share with core/breaker.
type (
	// Breaker is the breaker of one key.
	Breaker = breaker.Breaker
	// State is what a breaker does with requests.
	State = breaker.State
	// OpenError is the error of a request that was rejected.
	OpenError = breaker.OpenError
	// Hooks observe the breakers.
	Hooks = breaker.Hooks
	// StateChangedInfo tells of a change of state.
	StateChangedInfo = breaker.StateChangedInfo
	// RecordedInfo tells of a request that has ended.
	RecordedInfo = breaker.RecordedInfo
	// RejectedInfo tells of a request that was rejected.
	RejectedInfo = breaker.RejectedInfo
	// RateExceededInfo tells of a rate at which a breaker would open.
	RateExceededInfo = breaker.RateExceededInfo
	// ResetInfo tells of a reset.
	ResetInfo = breaker.ResetInfo
)

// The states. See core/breaker.
const (
	Closed      = breaker.Closed
	Open        = breaker.Open
	HalfOpen    = breaker.HalfOpen
	ForcedOpen  = breaker.ForcedOpen
	Disabled    = breaker.Disabled
	MetricsOnly = breaker.MetricsOnly
)

// ErrOpen is matched by every [*OpenError].
var ErrOpen = breaker.ErrOpen
