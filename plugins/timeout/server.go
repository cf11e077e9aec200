package timeout

import (
	"context"
	"net/http"
	"sync/atomic"

	"github.com/gresil/gresil/core/timeout"
	"github.com/gresil/gresil/internal/instance"
	"github.com/gresil/gresil/internal/override"
	"github.com/gresil/gresil/server"
)

// A Server limits the time of handlers. It holds no state but counters, and any
// number of handlers may share it.
type Server struct {
	life       instance.Instance[ServerConfig, *Error, Hooks] // the settings are the error of Limit
	timeout    *timeout.Timeout
	latePanics atomic.Uint64
}

// ServerStats are counts since the plugin was made. A handler that returned in
// time is a success, whatever its status; one that panicked is a failure.
type ServerStats struct {
	Stats
	LatePanics uint64 // handlers that panicked after the limit
}

func lifeCycle() *instance.Kind[ServerConfig, *Error, Hooks] {
	return &instance.Kind[ServerConfig, *Error, Hooks]{
		Kind: "timeout", Type: "timeout.ServerConfig", DefaultName: DefaultServerName,
		Fields: func(c *ServerConfig) instance.Fields[Hooks] {
			return instance.Fields[Hooks]{Name: &c.Name, Registry: &c.Registry, Hooks: nil}
		},
		Settings: func(c *ServerConfig) *Error { return c.error() },
	}
}

// NewServer makes a plugin. It returns the errors of [ServerConfig.Validate], or the
// [*core.DuplicateError] of the registry.
func NewServer(cfg ServerConfig) (*Server, error) {
	s := &Server{}
	err := s.life.Init(lifeCycle(), cfg)
	if err != nil {
		return nil, err
	}
	if s.timeout, err = timeout.New(cfg.core()); err != nil {
		return nil, err
	}
	if err = s.life.Register(s); err != nil {
		return nil, err
	}
	return s, nil
}

// SetConfig replaces the ServerConfig, Hooks included, while the plugin is in use.
// Requests whose handler runs keep their settings except for Hooks; counts, observers
// and overrides stay. An empty Name and a nil Registry stay as they are: another one is a
// [*core.ConfigError], as are the errors of [ServerConfig.Validate], and nothing changes.
func (s *Server) SetConfig(cfg ServerConfig) error {
	return s.life.SetConfig(cfg, func(cfg *ServerConfig) error { return s.timeout.SetConfig(cfg.core()) })
}

// Name returns the name of the plugin.
func (s *Server) Name() string { return s.life.Name() }

// Phase returns [server.Handling].
func (s *Server) Phase() server.Phase { return server.Handling }

// Config returns the ServerConfig of NewServer or of the last SetConfig, as it was given
// except for a Name and Registry that stayed.
func (s *Server) Config() ServerConfig { return s.life.Load().Config }

// Override returns a context under which f changes the ServerConfig of this plugin and
// of no other; it is for an outer middleware. Overrides nest: the innermost is applied
// last. Name, Registry and Hooks stay. With an invalid ServerConfig the request is
// answered with 500, and the handler does not run. A nil f changes nothing.
func (s *Server) Override(ctx context.Context, f func(*ServerConfig)) context.Context {
	return override.Context(ctx, s, f)
}

// Stats returns the counts so far.
func (s *Server) Stats() ServerStats {
	stats := ServerStats{Stats: s.timeout.Stats(), LatePanics: s.latePanics.Load()}
	stats.HookPanics += s.life.Panics.Count()
	return stats
}

// Observe adds hooks to those of the ServerConfig, until cancel is called. Hooks that run
// at that moment are not interrupted.
func (s *Server) Observe(h Hooks) (cancel func()) { return s.timeout.Observe(h) }

// Mechanisms returns the *timeout.Timeout of core/timeout. It makes a Server
// [core.Composed].
func (s *Server) Mechanisms() []any { return []any{s.timeout} }

// Close removes the plugin from its registry. It goes on working. A second Close does
// nothing; the error is always nil.
func (s *Server) Close() error { return s.life.Close() }

// Handler returns next with the limit around it. Put it around the whole router,
// as in http.Server{Handler: limit.Handler(r)}: chi's Use and With are not safe
// for it. See the package documentation.
func (s *Server) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cfg, cause, err := s.settings(r.Context())
		switch {
		case err != nil:
			server.Reject(w, r, server.Rejection{Status: http.StatusInternalServerError, RetryAfter: -1, Err: err})
		case cfg.Disabled:
			next.ServeHTTP(w, r)
		case cause.Limit < 0:
			next.ServeHTTP(w, r)
			_ = s.timeout.Finish(r.Context(), r.Context(), nil) // stays nil
		default:
			(&serving{server: s, cfg: cfg, w: w, r: r}).serve(cause, next) //nolint:contextcheck // it takes that of r
		}
	})
}

// settings returns the ServerConfig for a request, and the error for its limit.
func (s *Server) settings(ctx context.Context) (*ServerConfig, *Error, error) {
	now := s.life.Load()
	f := override.From[Server, ServerConfig](ctx, s)
	if f == nil {
		return &now.Config, now.Settings, nil
	}
	cfg := now.Config.With(f)
	if err := cfg.Validate(); err != nil {
		return nil, nil, err
	}
	return &cfg, &Error{Name: s.Name(), Limit: cfg.error().Limit}, nil
}
