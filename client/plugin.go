package client

import (
	"net/http"
	"reflect"
)

// A Plugin wraps transports. It is safe for concurrent use, and may be part of
// several pipelines, which then share its state.
type Plugin interface {
	// Name is the name of the instance, for String, Check and messages.
	Name() string
	// Phase is where the plugin belongs unless [InPhase] says otherwise.
	Phase() Phase
	// Transport returns next with the plugin around it. What it returns keeps
	// the contract of [http.RoundTripper], and passes CloseIdleConnections on
	// ([CloseIdleConnections] does that).
	Transport(next http.RoundTripper) http.RoundTripper
	// Close ends the plugin for all who use it. It may be called more than once.
	Close() error
}

// InPhase returns p with another phase; zero leaves it where it belongs. Among
// plugins of one phase, those that are given first are further out.
func InPhase(p Plugin, phase Phase) Plugin {
	if phase == 0 || missing(p) {
		return p
	}
	return placed{p, phase}
}

// A placed plugin is one whose phase was overridden.
type placed struct {
	Plugin
	phase Phase
}

func (p placed) Phase() Phase { return p.phase }

// bare returns the plugin that was placed, so that its own phase is seen.
func bare(p Plugin) Plugin {
	for {
		in, ok := p.(placed)
		if !ok {
			return p
		}
		p = in.Plugin
	}
}

// missing tells whether p is nil, or a nil pointer, as a constructor returns it
// together with an error.
func missing(p Plugin) bool {
	if p == nil {
		return true
	}
	v := reflect.ValueOf(bare(p))
	return v.Kind() == reflect.Pointer && v.IsNil()
}

// same tells whether a and b are one instance.
func same(a, b Plugin) bool {
	v, w := reflect.ValueOf(bare(a)), reflect.ValueOf(bare(b))
	return v.Kind() == reflect.Pointer && w.Kind() == reflect.Pointer && v.Pointer() == w.Pointer() && v.Type() == w.Type()
}
