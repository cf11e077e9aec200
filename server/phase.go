package server

import "github.com/gresil/gresil/internal/phase"

// A Phase is the place of a plugin: the lower, the further out. Numbers between
// the named ones are free to use; Plugins+10 is just inside of Plugins.
type Phase int

// The phases, from the outermost to the innermost.
const (
	// Setup is for what every later plugin relies on: request ids, recovery.
	Setup Phase = 100
	// Monitoring is for what watches requests, refused ones included: access
	// logs, metrics.
	Monitoring Phase = 200
	// Plugins is for what decides about a request before any work is done on it:
	// limiter, bulkhead, breaker.
	Plugins Phase = 300
	// Call is for what belongs to the call itself: authentication, timeout, cache.
	Call Phase = 400
	// Fallback is for what stands in right where the handler fails.
	Fallback Phase = 500
)

// String returns the name of the phase, as in "Plugins", or of the nearest one
// further out and the distance to it, as in "Plugins+10".
func (p Phase) String() string {
	return phase.String(p, phase.Name[Phase]{Phase: Setup, Name: "Setup"}, phase.Name[Phase]{Phase: Monitoring, Name: "Monitoring"}, phase.Name[Phase]{Phase: Plugins, Name: "Plugins"}, phase.Name[Phase]{Phase: Call, Name: "Call"}, phase.Name[Phase]{Phase: Fallback, Name: "Fallback"})
}
