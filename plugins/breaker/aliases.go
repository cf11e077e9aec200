package breaker

import (
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/core/breaker"
)

// The types of core/breaker and core/backoff that the plugins use.
type (
	// Breaker is the breaker of one key.
	Breaker = breaker.Breaker
	// Group has the breakers of all keys.
	Group = breaker.Group
	// State decides whether a breaker admits and counts requests.
	State = breaker.State
	// TrialRule decides from the trials of a half-open breaker whether it closes.
	TrialRule = breaker.TrialRule
	// Stats are the counts of all breakers of a plugin.
	Stats = breaker.Stats
	// GroupStats are the same with the number of keys in each state.
	GroupStats = breaker.GroupStats
	// OpenError is the error of a rejected request.
	OpenError = breaker.OpenError
	// Strategy computes how long a breaker stays open; core/backoff has several.
	Strategy = backoff.Strategy
	// A StateChange is a change of the state of a breaker.
	StateChange = breaker.StateChange
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

// The rules for trials. See core/breaker.
const (
	ByRate         = breaker.ByRate
	AllMustSucceed = breaker.AllMustSucceed
)

// ErrOpen is matched by every [*OpenError].
var ErrOpen = breaker.ErrOpen
