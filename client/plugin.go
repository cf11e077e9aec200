package client

import (
	"net/http"

	"github.com/gresil/gresil/internal/phase"
)

// A Plugin wraps transports. It is safe for concurrent use, and can be in several transports, which share its state.
type Plugin interface {
	// Phase is the place of the plugin in a transport.
	Phase() Phase
	// Transport returns next with the plugin around it. A nil next is a clone of http.DefaultTransport. The result passes
	// on CloseIdleConnections.
	Transport(next http.RoundTripper) http.RoundTripper
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

// Middleware makes a plugin of a function that wraps a RoundTripper, for example to sign each attempt:
//
//	client.Middleware(sign, client.Attempt+20)
func Middleware(wrap func(http.RoundTripper) http.RoundTripper, in Phase) Plugin {
	if wrap == nil {
		return nil // New reports it
	}
	return &middleware{wrap, in}
}

type middleware struct {
	wrap  func(http.RoundTripper) http.RoundTripper
	phase Phase
}

func (m *middleware) Phase() Phase { return m.phase }

func (m *middleware) Transport(next http.RoundTripper) http.RoundTripper {
	if next == nil {
		next = New(nil)
	}
	return m.wrap(next)
}

func (m *middleware) String() string { return "client.Middleware(" + phase.FuncName(m.wrap) + ")" }
