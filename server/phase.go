package server

import "github.com/gresil/gresil/internal/phase"

// A Phase is a place in a pipeline: lower phases are further out. Numbers between the named ones are free to use;
// Admission+10 is just inside of Admission.
type Phase int

// The phases, from the outermost to the innermost.
const (
	Setup      Phase = 100 // what all others rely on: request IDs, recovery, authentication
	Monitoring Phase = 200 // what observes requests, rejected ones included: access logs, metrics
	Admission  Phase = 300 // what decides before any work is done: limiter, bulkhead, breaker
	Handling   Phase = 400 // what surrounds the work: timeout, cache
	Fallback   Phase = 500 // what replaces the response of a failed handler
)

// String returns the name of the phase, or of the next outer one and the distance to it, as in "Admission+10".
func (p Phase) String() string {
	return phase.String(p, map[Phase]string{
		Setup: "Setup", Monitoring: "Monitoring", Admission: "Admission", Handling: "Handling", Fallback: "Fallback",
	})
}
