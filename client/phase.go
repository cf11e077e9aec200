package client

import "strconv"

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
	switch {
	case p >= Engine:
		return p.beside("Engine", Engine)
	case p >= Monitoring:
		return p.beside("Monitoring", Monitoring)
	case p >= State:
		return p.beside("State", State)
	case p >= Before:
		return p.beside("Before", Before)
	}
	return "Phase(" + strconv.Itoa(int(p)) + ")"
}

func (p Phase) beside(name string, base Phase) string {
	if p == base {
		return name
	}
	return name + "+" + strconv.Itoa(int(p-base))
}
