package client

import (
	"net/http"

	"github.com/gresil/gresil/internal/phase"
)

// A Plugin wraps transports. It is safe for concurrent use, and may be part of
// several pipelines, which then share its state.
type Plugin interface {
	// Name is the name of the instance, for String, Check and messages.
	Name() string
	// Phase is the place of the plugin, unless [InPhase] overrides it.
	Phase() Phase
	// Transport returns next with the plugin around it. The result keeps the contract
	// of [http.RoundTripper], and passes CloseIdleConnections on
	// ([CloseIdleConnections] does that).
	Transport(next http.RoundTripper) http.RoundTripper
	// Close ends the plugin for all its users. It may be called more than once.
	Close() error
}

// InPhase returns p with another phase; zero keeps its own. Within one phase the first
// plugin is the outermost.
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
