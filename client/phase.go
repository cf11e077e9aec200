package client

import "github.com/gresil/gresil/internal/phase"

// A Phase is the place of a plugin: the lower, the further out. Numbers between
// the named ones are free to use; Engine+10 is just inside of Engine.
type Phase int

// The phases, from the outermost to the innermost.
const (
	// Before is for what may answer without a call, or bounds the whole of it:
	// fallback, cache, total timeout.
	Before Phase = 100
	// State is for what makes several calls out of one: retry, hedge.
	State Phase = 200
	// Monitoring is for what may hold a call back: limiter, bulkhead. It is
	// outside Engine, so that a call that waits neither holds a half-open slot
	// of a breaker nor looks slow to it.
	Monitoring Phase = 300
	// Engine is for what judges single attempts: the breaker, and just inside
	// of it the timeout per attempt, whose errors the breaker counts.
	Engine Phase = 400
)

// String returns the name of the phase, as in "State", or of the nearest one
// further out and the distance to it, as in "Engine+10".
func (p Phase) String() string {
	return phase.String(p, phase.Name[Phase]{Phase: Before, Name: "Before"}, phase.Name[Phase]{Phase: State, Name: "State"}, phase.Name[Phase]{Phase: Monitoring, Name: "Monitoring"}, phase.Name[Phase]{Phase: Engine, Name: "Engine"})
}
