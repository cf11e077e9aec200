package timeout

import (
	"cmp"
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/gresil/gresil/internal/hook"
	"github.com/gresil/gresil/internal/instance"
	"github.com/gresil/gresil/internal/override"
	"github.com/gresil/gresil/internal/recorder"
	"github.com/gresil/gresil/internal/reject"
	"github.com/gresil/gresil/server"
)

// A Server limits the time of handlers. It holds no state but counters, and any
// number of handlers may share it.
type Server struct {
	plugin[ServerConfig]
	panics     hook.Panics // of Late and Panicked
	latePanics atomic.Uint64
}

// ServerStats are counts since the plugin was made. A handler that returned in
// time is a success, whatever its status; one that panicked is a failure.
type ServerStats struct {
	Stats
	LatePanics uint64 // handlers that panicked after the limit
}

// NewServer makes a plugin. It returns the errors of [ServerConfig.Validate], or of
// [core.Registry.Add].
func NewServer(cfg ServerConfig) (*Server, error) {
	s := &Server{}
	err := s.init(s, &instance.Kind[ServerConfig, settings]{
		Type: "timeout.ServerConfig", DefaultName: "server",
		Fields: func(c *ServerConfig) instance.Fields {
			return instance.Fields{Name: &c.Name, Registry: &c.Registry} // the timeout has the hooks
		},
		Settings: func(c *ServerConfig) settings {
			return settle(cmp.Or(c.Name, "server"), c.Disabled, cmp.Or(c.Limit, 30*time.Second))
		},
	}, cfg)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Phase returns [server.Handling].
func (s *Server) Phase() server.Phase { return server.Handling }

// Config returns the ServerConfig of NewServer or of the last SetConfig, as it was given
// except for a Name and Registry that stayed.
func (s *Server) Config() ServerConfig { return s.life.Load().Config }

// SetConfig replaces the ServerConfig while the plugin is in use.
// Requests whose handler runs keep their settings; counts
// and overrides stay. An empty Name and a nil Registry stay as they are: another one is a
// [*core.ConfigError], as are the errors of [ServerConfig.Validate], and nothing changes.
func (s *Server) SetConfig(cfg ServerConfig) error { return s.setConfig(cfg) }

// Override returns a context under which f changes the ServerConfig of this plugin and
// of no other; it is for an outer middleware. Overrides nest: the innermost is applied
// last. Name and Registry stay. With an invalid ServerConfig the request is
// answered with 500, and the handler does not run. A nil f changes nothing.
func (s *Server) Override(ctx context.Context, f func(*ServerConfig)) context.Context {
	return override.Context(ctx, &s.plugin, f)
}

// String returns the type and the name, as in "timeout.Server(default)".
func (s *Server) String() string { return "timeout.Server(" + s.Name() + ")" }

// Stats returns the counts so far.
func (s *Server) Stats() ServerStats {
	return ServerStats{Stats: s.timeout.Stats(), LatePanics: s.latePanics.Load()}
}

// Handler returns next with the limit around it. Put it around the whole router,
// as in http.Server{Handler: limit.Handler(r)}: chi's Use and With are not safe
// for it. See the package documentation.
func (s *Server) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cfg, cause, err := s.settings(r.Context())
		switch {
		case err != nil:
			recorder.MarkRejected(w, err) // the handler is not called
			reject.With(w, r, server.Rejection{Status: http.StatusInternalServerError, RetryAfter: -1, Err: err}, -1, s.life.Load().Config.OnRejected, server.Reject)
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
