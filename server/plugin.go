package server

import (
	"net/http"

	"github.com/gresil/gresil/internal/phase"
)

// A Plugin wraps handlers. It is safe for concurrent use, and can be in several pipelines, which share its state.
type Plugin interface {
	// Phase is the place of the plugin in a pipeline.
	Phase() Phase
	// Handler returns next with the plugin around it. It fits Use and With of chi.
	Handler(next http.Handler) http.Handler
}

// InPhase returns p in another phase.
func InPhase(p Plugin, in Phase) Plugin { return placed{p, in} }

type placed struct {
	Plugin
	phase Phase
}

func (p placed) Phase() Phase { return p.phase }

// Bare returns the plugin.
func (p placed) Bare() Plugin { return p.Plugin }

// Middleware makes a plugin of ordinary middleware, for example of chi's RequestID:
//
//	server.Middleware(middleware.RequestID, server.Setup)
func Middleware(wrap func(http.Handler) http.Handler, in Phase) Plugin {
	if wrap == nil {
		return nil // New reports it
	}
	return &middleware{wrap, in}
}

type middleware struct {
	wrap  func(http.Handler) http.Handler
	phase Phase
}

func (m *middleware) Phase() Phase { return m.phase }

func (m *middleware) Handler(next http.Handler) http.Handler { return m.wrap(next) }

func (m *middleware) String() string { return "server.Middleware(" + phase.FuncName(m.wrap) + ")" }
