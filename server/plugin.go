package server

import (
	"net/http"

	"github.com/gresil/gresil/internal/phase"
)

// A Plugin wraps handlers. It is safe for concurrent use, and may be part of
// several pipelines, which then share its state.
type Plugin interface {
	// Name is the name of the instance, for String, Check and messages.
	Name() string
	// Phase is where the plugin belongs unless [InPhase] says otherwise.
	Phase() Phase
	// Handler returns next with the plugin around it, never nil. It fits chi's Use
	// and With, unless it returns before next does, as a timeout does: that goes
	// around the whole router.
	Handler(next http.Handler) http.Handler
	// Close ends the plugin for all who use it. It may be called more than once.
	Close() error
}

// InPhase returns p with another phase; zero leaves it where it belongs. Within
// a phase, plugins keep the order of the arguments, outermost first.
func InPhase(p Plugin, in Phase) Plugin {
	if in == 0 || phase.Missing(p) {
		return p
	}
	return placed{p, in}
}

// A placed plugin is one whose phase was overridden.
type placed struct {
	Plugin
	in Phase
}

func (p placed) Phase() Phase { return p.in }

func (p placed) Bare() Plugin { return p.Plugin }
