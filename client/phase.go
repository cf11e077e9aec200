package client

import "github.com/gresil/gresil/internal/phase"

// A Phase is a place in a transport: lower phases are further out. Numbers between the named ones are free to use; Attempt+10
// is just inside of Attempt.
type Phase int

// The phases, from the outermost to the innermost.
const (
	Overall   Phase = 100 // what can answer without a call, or limits the whole call: fallback, cache, total timeout
	Attempts  Phase = 200 // what makes several attempts of one call: retry, hedge
	Admission Phase = 300 // what can delay an attempt: a gate, a bulkhead
	Attempt   Phase = 400 // what judges an attempt: breaker, and inside of it the timeout of an attempt
)

// String returns the name of the phase, or of the next outer one and the distance to it, as in "Attempt+10".
func (p Phase) String() string {
	return phase.String(p, map[Phase]string{Overall: "Overall", Attempts: "Attempts", Admission: "Admission", Attempt: "Attempt"})
}
