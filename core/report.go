package core

import (
	"context"
	"log/slog"
)

// A Reporter is an instance that describes itself to metrics and logs, as they do not
// import its package: a service, such as a dispatcher of outbound/dispatch.
type Reporter interface {
	// Figures returns the counters and the present state, and the number of panics of
	// hooks. The names and labels are always the same.
	Figures() (figures []Figure, hookPanics uint64)
	// ObserveSteps calls f for each step, until cancel is called. Those of single calls
	// are left out unless calls is set; each step of an outage is passed.
	ObserveSteps(calls bool, f func(ctx context.Context, step Step)) (cancel func())
}

// A Figure is a number of a [Reporter].
type Figure struct {
	Name  string // of the metric, without its kind; that of a counter ends with _total
	Help  string
	Label string // such as "result"; if empty, there is none
	Value string // of the label
	N     float64
}

// A Step is an event of a [Reporter].
type Step struct {
	Text  string // constant
	Call  bool   // of a single call
	Warn  bool   // something has failed
	Key   string // it can be a secret
	Attrs []slog.Attr
	// Outage marks the steps of a store: with Warn each operation that it has failed, without
	// Warn the first one after that. Package logs counts them, and writes few records.
	Outage bool
}
