package breaker

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/instance"
	"github.com/gresil/gresil/internal/override"
	"github.com/gresil/gresil/internal/validate"
	"github.com/gresil/gresil/server"
)

// A Server rejects requests to a handler that keeps failing, with 503 and Retry-After.
// Any number of handlers may share it and its breakers.
type Server struct {
	plugin[ServerConfig, classifier, ServerCall]

	handlers atomic.Int32 // that Handler returned
}

type classifier func(r *http.Request, status int) core.Outcome

func serverLife() *instance.Kind[ServerConfig, classifier] {
	return &instance.Kind[ServerConfig, classifier]{
		Kind: "breaker", Type: "breaker.ServerConfig", DefaultName: "default",
		Fields: func(c *ServerConfig) instance.Fields {
			return instance.Fields{Name: &c.Name, Registry: &c.Registry}
		},
		Settings: func(c *ServerConfig) classifier {
			if c.Classify == nil {
				return server.Classify
			}
			return c.Classify
		},
		Fixed: func(check *validate.Check, old, cfg *ServerConfig) {
			check.That(cfg.MaxKeys == old.MaxKeys, "MaxKeys", cfg.MaxKeys, mustStay(old.MaxKeys))
			check.That((cfg.Key == nil) == (old.Key == nil), "Key", cfg.Key != nil, fmt.Sprintf("must stay set: %v", old.Key != nil))
		},
	}
}

// NewServer makes a plugin. It returns the errors of [ServerConfig.Validate], or of
// [core.Registry.Add].
func NewServer(cfg ServerConfig) (*Server, error) {
	s := &Server{}
	if err := s.init(s, serverLife(), cfg, cfg.Key != nil, nil, cfg.MaxKeys); err != nil {
		return nil, err
	}
	return s, nil
}

// Phase is directly inside of [server.Admission]: a request that waits at a limiter must
// not hold the slot of a trial.
func (s *Server) Phase() server.Phase { return server.Admission + 10 }

// Config returns the ServerConfig of NewServer or of the last SetConfig, as it was given
// except for a Name and Registry that stayed.
func (s *Server) Config() ServerConfig { return s.life.Load().Config }

// SetConfig replaces the ServerConfig while the plugin is in use: see
// [breaker.Breaker.SetConfig]. States, counts and observers stay. An empty Name and a nil
// Registry stay as they are; MaxKeys must stay the same, and a Key must not be added or
// removed. With an error nothing changes.
func (s *Server) SetConfig(cfg ServerConfig) error { return s.setConfig(cfg) }

// Override returns a context under which f changes how this plugin, and no other, treats
// a request, for an outer middleware. Overrides nest: the innermost is applied last. A
// nil f changes nothing.
func (s *Server) Override(ctx context.Context, f func(*ServerCall)) context.Context {
	return override.Context(ctx, &s.plugin, f)
}

// String returns the type and the name, as in "breaker.Server(default)".
func (s *Server) String() string { return "breaker.Server(" + s.Name() + ")" }

// For returns the breaker of a key, or nil if no request has used it yet. Requests
// without a key have the empty one. Without a Key in the ServerConfig there is only one
// breaker, whatever the key.
func (s *Server) For(key string) *Breaker {
	if s.one != nil {
		return s.one
	}
	return s.group.Lookup(key)
}

// Stats returns the counts so far.
func (s *Server) Stats() Stats {
	if s.one != nil {
		return s.one.Stats()
	}
	return s.group.Stats().Stats
}

// ServerCall is the part that can change for one request to a [Server].
type ServerCall struct {
	// Disabled sends the request past the breaker: it is neither rejected nor counted.
	Disabled bool
	// Key is the key of the breaker to use. If empty, it is that of the request.
	// Without a Key in the ServerConfig there is only one breaker, and Key is not used.
	Key string
	// Classify is that of the ServerConfig, or the default, when the function of an
	// Override gets it: a function that replaces it can call it. If nil, it stays.
	Classify func(r *http.Request, status int) core.Outcome
}
