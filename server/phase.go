package server

import "github.com/gresil/gresil/internal/phase"

// A Phase is the place of a plugin: lower phases are outer. Numbers between
// the named ones are free to use; Admission+10 is just inside of Admission.
type Phase int

// The phases, from the outermost to the innermost.
const (
	// Setup is for plugins that all others rely on: request IDs, recovery.
	Setup Phase = 100
	// Monitoring is for plugins that observe requests, rejected ones included: access
	// logs, metrics.
	Monitoring Phase = 200
	// Admission is for plugins that decide about a request before any work is done on
	// it: limiter, bulkhead, breaker.
	Admission Phase = 300
	// Handling is for plugins around the handling of an admitted request:
	// authentication, timeout, cache.
	Handling Phase = 400
	// Fallback is for plugins that replace the answer of a failed handler.
	Fallback Phase = 500
)

// String returns the name of the phase, as in "Admission", or of the nearest
// outer one and the distance to it, as in "Admission+10".
func (p Phase) String() string {
	return phase.String(p, phase.Name[Phase]{Phase: Setup, Name: "Setup"}, phase.Name[Phase]{Phase: Monitoring, Name: "Monitoring"}, phase.Name[Phase]{Phase: Admission, Name: "Admission"}, phase.Name[Phase]{Phase: Handling, Name: "Handling"}, phase.Name[Phase]{Phase: Fallback, Name: "Fallback"})
}
