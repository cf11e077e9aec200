package server

import (
	"net/http"
	"path"
	"reflect"
	"runtime"
)

// A Plugin wraps handlers. It is safe for concurrent use, and can be in several pipelines, which share its state.
type Plugin interface {
	// Phase is the place of the plugin in a pipeline.
	Phase() Phase
	// Handler returns next with the plugin around it. It fits Use and With of chi.
	Handler(next http.Handler) http.Handler
}

// InPhase returns p in another phase.
func InPhase(p Plugin, phase Phase) Plugin { return placed{Plugin: p, phase: phase} }

// A placed plugin has its phase from InPhase or, in a pipeline, its own.
type placed struct {
	Plugin
	phase Phase
	route *route // nil: for every request
}

func (p placed) Phase() Phase { return p.phase }

// Bare returns the plugin.
func (p placed) Bare() Plugin { return p.Plugin }

// Middleware makes a plugin of ordinary middleware, for example of chi's RequestID:
//
//	server.Middleware(middleware.RequestID, server.Setup)
func Middleware(wrap func(http.Handler) http.Handler, phase Phase) Plugin {
	if wrap == nil {
		return nil // New reports it
	}
	return &middleware{wrap, phase}
}

type middleware struct {
	wrap  func(http.Handler) http.Handler
	phase Phase
}

func (m *middleware) Phase() Phase { return m.phase }

func (m *middleware) Handler(next http.Handler) http.Handler { return m.wrap(next) }

// String names the function.
func (m *middleware) String() string {
	name := runtime.FuncForPC(reflect.ValueOf(m.wrap).Pointer()).Name()
	return "server.Middleware(" + path.Base(name) + ")"
}
