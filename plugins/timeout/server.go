package timeout

import (
	"cmp"
	"context"
	"net/http"
	"sync/atomic"

	"github.com/gresil/gresil/core/timeout"
	"github.com/gresil/gresil/internal/conferr"
	"github.com/gresil/gresil/internal/hook"
	"github.com/gresil/gresil/server"
)

// A Server limits the time of handlers. It holds no state but counters, and any
// number of handlers may share it.
type Server struct {
	live[ServerConfig]
	latePanics atomic.Uint64
	panics     hook.Panics
}

// ServerStats are counts since the plugin was made. A handler that returned in
// time is a success, whatever its status; one that panicked is a failure.
type ServerStats struct {
	Stats
	LatePanics uint64 // handlers that panicked after the limit
}

// NewServer makes a plugin. It returns what [ServerConfig.Validate] finds, or the
// [*core.DuplicateError] of the registry.
func NewServer(cfg ServerConfig) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	t, err := timeout.New(cfg.core())
	if err != nil {
		return nil, err
	}
	s := &Server{}
	s.timeout = t
	s.adopt = func(cfg *ServerConfig, part timeout.Config) {
		if cfg.Registry, cfg.Hooks = part.Registry, part.Hooks; cfg.limit() != part.Limit {
			cfg.Limit = part.Limit
		}
	}
	s.agreeLocked(cfg)
	return s, nil
}

// SetConfig replaces the ServerConfig, Hooks included, while the plugin is in use.
// Requests whose handler runs keep what they began with, but for Hooks; counts,
// observers and overrides stay. An empty Name and a nil Registry are what they were:
// another one is a [*core.ConfigError], as is what [ServerConfig.Validate] finds, and
// nothing changes.
//
// SetConfig of the timeout in the registry sets what both have.
func (s *Server) SetConfig(cfg ServerConfig) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	part := cfg.core()
	part.Name = cfg.Name
	cfg.Name = cmp.Or(cfg.Name, s.Config().Name)
	return conferr.Relabel(s.set(cfg, part), "timeout.ServerConfig.", "timeout.Config.")
}

// Name returns the name of the plugin.
func (s *Server) Name() string { return s.timeout.Name() }

// Phase returns [server.Handling].
func (s *Server) Phase() server.Phase { return server.Handling }

// Config returns the ServerConfig that the plugin was made with, or that the last
// SetConfig gave it, as it was given but for a Name and Registry that stayed.
func (s *Server) Config() ServerConfig { return s.now().cfg }

// Stats returns the counts so far.
func (s *Server) Stats() ServerStats {
	stats := ServerStats{Stats: s.timeout.Stats(), LatePanics: s.latePanics.Load()}
	stats.HookPanics += s.panics.Count()
	return stats
}

// Observe adds hooks to those of the Config, until cancel is called.
func (s *Server) Observe(h Hooks) (cancel func()) { return s.timeout.Observe(h) }

// Close takes the plugin out of its registry. It goes on working. A second Close
// does nothing; the error is always nil.
func (s *Server) Close() error { return s.timeout.Close() }

// Override returns a context under which this plugin, and no other, uses its
// ServerConfig as changed by f, for a middleware further out. Overrides nest: the
// innermost is applied last. Name, Registry and Hooks stay what they are. With a
// ServerConfig that cannot be used the request is answered with 500, and the
// handler does not run. A nil f changes nothing.
func (s *Server) Override(ctx context.Context, f func(*ServerConfig)) context.Context {
	return override(ctx, overrideKey[Server]{s}, f)
}

// settings returns the Config for a request, and the error for its limit.
func (s *Server) settings(ctx context.Context) (*ServerConfig, *Error, error) {
	f, ok := ctx.Value(overrideKey[Server]{s}).(func(*ServerConfig))
	now := s.now()
	if !ok {
		return &now.cfg, now.err, nil
	}
	cfg := now.cfg.With(f)
	if err := cfg.Validate(); err != nil {
		return nil, nil, err
	}
	return &cfg, &Error{Name: s.Name(), Limit: cfg.limit()}, nil
}

// Handler returns next with the limit around it. Put it around the whole router,
// as in http.Server{Handler: limit.Handler(r)}: chi's Use and With are not safe
// for it. See the package documentation.
func (s *Server) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cfg, cause, err := s.settings(r.Context())
		switch {
		case err != nil:
			server.Reject(w, r, server.Rejection{Status: http.StatusInternalServerError, RetryAfter: -1, Err: err})
		case cause.Limit < 0:
			next.ServeHTTP(w, r)
			_ = s.timeout.Finish(r.Context(), r.Context(), nil) // stays nil
		default:
			(&serving{server: s, cfg: cfg, w: w, r: r}).serve(cause, next) //nolint:contextcheck // it takes that of r
		}
	})
}
