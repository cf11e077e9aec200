package ratelimit

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/conferr"
	"github.com/gresil/gresil/server"
)

// A Server limits requests. It is a [server.Plugin], and works without a pipeline
// just as well. It is safe for concurrent use; all handlers it is put around share
// its permits.
type Server struct {
	cfg      ServerConfig
	limiter  *ratelimit.Limiter
	others   *rule // all requests without a route
	routes   routes
	layers   []layer
	key      Key
	ip       Key // for requests without a key
	counters counters
	handlers atomic.Int32 // that Handler returned
}

// NewServer makes a plugin. It returns what [ServerConfig.Validate] finds, or the
// [*core.DuplicateError] of the registry.
func NewServer(cfg ServerConfig) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.With(func(*ServerConfig) {})
	limiter, err := ratelimit.New(cfg.core())
	if err != nil {
		return nil, conferr.Relabel(err, "ratelimit.ServerConfig.", "ratelimit.Config.")
	}
	s := &Server{cfg: cfg, limiter: limiter, key: cfg.Key, ip: server.ByClientIP()}
	if s.key == nil {
		s.key = s.ip
	}
	s.others = &rule{server: s, limiter: limiter, weight: cfg.Weight, tier: cfg.Tier, texts: newTexts(limiter.Name(), limiter)}
	for _, r := range cfg.Routes {
		u := *s.others
		if r.Weight != nil {
			u.weight = r.Weight
		}
		if r.Limit != (Limit{}) {
			if u.limiter, err = limiter.WithLimit(r.Limit); err != nil {
				_ = limiter.Close()
				return nil, err
			}
			u.tier, u.mark, u.texts = nil, marked(markRoute, r.Pattern), newTexts(r.Pattern, u.limiter)
		}
		s.routes = append(s.routes, route{parsePattern(r.Pattern), &u})
	}
	for _, l := range cfg.Layers {
		held, err := limiter.WithLimit(l.Limit)
		if err != nil {
			_ = limiter.Close()
			return nil, err
		}
		s.layers = append(s.layers, layer{limiter: held, text: newText(l.Name, held.Limit()), key: l.Key, name: l.Name, mark: marked(markLayer, l.Name)})
	}
	slices.SortFunc(s.routes, func(a, b route) int { return bySpecificity(a.pattern, b.pattern) })
	return s, nil
}

// Name returns the name of the limiter.
func (s *Server) Name() string { return s.limiter.Name() }

// Phase returns the Phase of the config, or [server.Admission].
func (s *Server) Phase() server.Phase { return s.cfg.phase() }

// Config returns the ServerConfig that the plugin was made with, as it was given.
func (s *Server) Config() ServerConfig { return s.cfg.With(func(*ServerConfig) {}) }

// Limiter returns the limiter that decides, to look at keys, to reset them, for
// its counters, and to observe it.
func (s *Server) Limiter() *ratelimit.Limiter { return s.limiter }

// Close takes the limiter out of its registry. Unless it has a Store of yours, it
// refuses requests with 503 from then on: close it when the server is shut down. A
// second Close does nothing.
func (s *Server) Close() error { return s.limiter.Close() }

// With makes another limiter, configured as this one but for what f changes, with
// permits and a name of its own: one that this one has, itself or for a layer or a
// route, is a [*core.ConfigError]. It is meant to be put on top of this one, around
// some handlers, so it has no Routes, no Layers and no Tier but those that f gives it;
// Key, Weight, Exclude and all else are those of this one. When it refuses a request,
// this one gives back what the request took. For that, a middleware between the two
// that wraps the ResponseWriter must have Unwrap.
func (s *Server) With(f func(*ServerConfig)) (*Server, error) {
	cfg := s.cfg
	cfg.Routes, cfg.Layers, cfg.Tier = nil, nil, nil
	cfg = cfg.With(f)
	name := cmp.Or(cfg.Name, DefaultName)
	taken := sameName(name, cfg.Limit, s.Name(), s.cfg.Limit)
	for _, r := range s.cfg.Routes {
		taken = taken || sameName(name, cfg.Limit, r.Pattern, r.Limit)
	}
	for _, l := range s.cfg.Layers {
		taken = taken || sameName(name, cfg.Limit, l.Name, l.Limit)
	}
	if taken {
		return nil, &core.ConfigError{Field: "ratelimit.ServerConfig.Name", Value: fmt.Sprintf("%q", cfg.Name), Reason: "must be another one than that of the limiter it comes from, and of its layers and routes"}
	}
	return NewServer(cfg)
}

// Handler returns next with the limit around it. A request that passes several handlers of
// one Server, as of a router and of a router mounted in it, is charged by the outermost.
// A request of its own that a handler makes, with another ResponseWriter, as for each item
// of a batch, is charged by itself.
func (s *Server) Handler(next http.Handler) http.Handler {
	s.handlers.Add(1)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, next) })
}

// rule returns what r is held to.
func (s *Server) rule(r *http.Request) *rule {
	if u := s.routes.find(r); u != nil {
		return u
	}
	return s.others
}
