package client

import "github.com/gresil/gresil/internal/phase"

// A Phase is the place of a plugin: lower phases are outer. Numbers between
// the named ones are free to use; Attempt+10 is just inside of Attempt.
type Phase int

// The phases, from the outermost to the innermost.
const (
	// Overall is for plugins that can answer without a call, or limit the whole of it:
	// fallback, cache, total timeout.
	Overall Phase = 100
	// Attempts is for plugins that turn one call into several attempts: retry, hedge.
	Attempts Phase = 200
	// Admission is for plugins that can delay an attempt: limiter, bulkhead. It is
	// outside of Attempt: an attempt that waits neither holds a half-open slot of a
	// breaker nor looks slow to it.
	Admission Phase = 300
	// Attempt is for plugins that judge single attempts: the breaker, and just inside
	// of it the timeout per attempt, whose errors the breaker counts.
	Attempt Phase = 400
)

// String returns the name of the phase, as in "Attempts", or of the nearest
// outer one and the distance to it, as in "Attempt+10".
func (p Phase) String() string {
	return phase.String(p, phase.Name[Phase]{Phase: Overall, Name: "Overall"}, phase.Name[Phase]{Phase: Attempts, Name: "Attempts"}, phase.Name[Phase]{Phase: Admission, Name: "Admission"}, phase.Name[Phase]{Phase: Attempt, Name: "Attempt"})
}
