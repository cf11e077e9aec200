package ratelimit

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/instance"
	"github.com/gresil/gresil/internal/override"
	"github.com/gresil/gresil/server"
)

// A Server limits requests. It is a [server.Plugin] and works without a pipeline too. It
// is safe for concurrent use. All handlers that it wraps share its permits.
type Server struct {
	plugin[ServerConfig]
	current  atomic.Pointer[settings]
	counters counters
	handlers atomic.Int32 // that Handler returned
}

// settings follow from a ServerConfig. A request keeps those that it began with.
type settings struct {
	*Server
	cfg    ServerConfig
	key    server.Key
	others *rule // of requests without a route
	routes routes
	layers []layer
}

// NewServer makes a plugin. It returns the errors of [ServerConfig.Validate], or of
// a Registry that has the name already.
func NewServer(cfg ServerConfig) (*Server, error) {
	s := &Server{}
	cfg = cfg.clone()
	err := s.init(cfg, instance.Kind[ServerConfig, struct{}]{
		Type: "ratelimit.ServerConfig",
		Fields: func(c *ServerConfig) instance.Fields {
			return instance.Fields{Name: &c.Name, Registry: &c.Registry}
		},
	}, false)
	if err != nil {
		return nil, err
	}
	set, err := s.settings(cfg)
	if err == nil {
		s.current.Store(set)
		err = s.life.Register(s, s.SetConfig, s.source)
	}
	if err != nil {
		_ = s.close()
		return nil, err
	}
	return s, nil
}

// settings derives the settings of a valid ServerConfig.
func (s *Server) settings(cfg ServerConfig) (*settings, error) {
	set := &settings{Server: s, cfg: cfg, key: cfg.Key}
	if set.key == nil {
		set.key = server.ClientIP
	}
	set.others = &rule{set: set, limiter: s.limiter, weight: cfg.Weight, tier: cfg.Tier, texts: newTexts(s.Name(), s.limiter)}
	for _, r := range cfg.Routes {
		u := *set.others
		if r.Weight != nil {
			u.weight = r.Weight
		}
		if r.Limit != (Limit{}) {
			own, err := s.limiter.WithLimit(r.Limit)
			if err != nil {
				return nil, err
			}
			u.limiter, u.tier, u.mark, u.texts = own, nil, marked(markRoute, r.Pattern), newTexts(r.Pattern, own)
		}
		set.routes = append(set.routes, route{parsePattern(r.Pattern), &u})
	}
	for _, l := range cfg.Layers {
		own, err := s.limiter.WithLimit(l.Limit)
		if err != nil {
			return nil, err
		}
		set.layers = append(set.layers, layer{limiter: own, text: newText(l.Name, own.Limit()), key: l.Key, name: l.Name, mark: marked(markLayer, l.Name)})
	}
	slices.SortFunc(set.routes, func(a, b route) int { return bySpecificity(a.pattern, b.pattern) })
	return set, nil
}

// Phase is [server.Admission]. The plugin that determines the key must be an outer one: see
// [server.InPhase].
func (s *Server) Phase() server.Phase { return server.Admission }

// Config returns the ServerConfig of NewServer or of the last SetConfig, as it was given
// except for a Name and Registry that stayed.
func (s *Server) Config() ServerConfig { return s.life.Load().Config.clone() }

// SetConfig replaces the ServerConfig while the plugin is in use, with its Routes, Layers
// and Tier. Keys keep their usage, as with SetConfig of core/ratelimit; a route keeps it
// under its Pattern, and a layer under its Name. Requests in progress keep the old
// config. Overrides stay. An empty Name and a nil Registry
// stay as they are: another one is a [*core.ConfigError], as are another Store or
// MaxKeys and the errors of [ServerConfig.Validate], and nothing changes.
func (s *Server) SetConfig(cfg ServerConfig) error {
	return s.life.SetConfig(cfg.clone(), func(cfg *ServerConfig) error {
		if _, err := s.settings(*cfg); err != nil { // a limit that the store does not take
			return err
		}
		if err := s.setCore(*cfg); err != nil {
			return err
		}
		set, err := s.settings(*cfg) // again, with the limit that is in force now
		if err == nil {
			s.current.Store(set)
		}
		return err
	})
}

// A ServerCall has the settings that [Server.Override] can change for a request.
type ServerCall struct {
	// Disabled switches the plugin off: the request takes nothing, gets no field, and is
	// not counted.
	Disabled bool
	// Key is that of the ServerConfig.
	Key server.Key
	// Weight is that of the ServerConfig, or of the route. If nil, it is 1.
	Weight func(r *http.Request) (int64, error)
}

// Override returns a context under which this plugin, and no other, uses its settings as
// changed by f, for a request that an outer middleware passes on. Overrides nest: the
// innermost is applied last. A nil f changes nothing.
func (s *Server) Override(ctx context.Context, f func(*ServerCall)) context.Context {
	return override.Context(ctx, s, f)
}

// String returns the type and the name, as in "ratelimit.Server(api)".
func (s *Server) String() string { return "ratelimit.Server(" + s.Name() + ")" }

// Stats returns the counters as they are now.
func (s *Server) Stats() ServerStats { return s.counters.stats() }

// Close removes the plugin from its registry and closes its limiter. Unless it has a
// Store that was given, it then rejects requests with 503: close it when the server is
// shut down. A second Close does nothing.
func (s *Server) Close() error { return s.close() }

// With makes another limiter with the config of this one as changed by f, and with its own
// permits and name: a name that this one has, itself or for a layer or a route, is a
// [*core.ConfigError]. It is for some inner handlers, in addition to this one, so it has only
// the Routes, Layers and Tier that f sets; Key, Weight, Exclude and the other fields are
// those of this one. If it refuses a request, this one refunds the request. For that, a
// middleware between the two that wraps the ResponseWriter must have Unwrap.
func (s *Server) With(f func(*ServerConfig)) (*Server, error) {
	outer := s.Config()
	cfg := outer
	cfg.Routes, cfg.Layers, cfg.Tier = nil, nil, nil
	f(&cfg)
	if taken(outer.named(), cmp.Or(cfg.Name, defaultName), cfg.Limit) != "" {
		return nil, &core.ConfigError{Field: "ratelimit.ServerConfig.Name", Value: fmt.Sprintf("%q", cfg.Name), Reason: "must be another one than that of the limiter it comes from, and of its layers and routes"}
	}
	return NewServer(cfg)
}

// Handler returns next with the limit around it. A request that passes several handlers of
// one Server, as of a router and of a router mounted in it, is charged by the outermost. A
// request that a handler makes itself, with another ResponseWriter, as for each item of a
// batch, is charged separately. If a middleware in between hides its ResponseWriter, an
// inner handler recognizes the request by its header map or its body, and its target.
func (s *Server) Handler(next http.Handler) http.Handler {
	s.handlers.Add(1)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.current.Load().serve(w, r, next) })
}
