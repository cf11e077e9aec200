package standard

import (
	"cmp"
	"errors"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/validate"
	"github.com/gresil/gresil/plugins/ratelimit"
	"github.com/gresil/gresil/plugins/timeout"
	"github.com/gresil/gresil/server"
)

// ServerConfig configures the pipeline of a server. The zero value limits each client IP to 1,000 requests a minute, and each
// request to 30 seconds.
type ServerConfig struct {
	// Name names the parts that have no name. If empty, it is "standard".
	Name string
	// Registry registers the parts that have no Registry. If nil, they are not registered. [core.Lookup] finds them there.
	Registry *core.Registry

	Limit   ratelimit.Config // the zero value is 1,000 requests a minute for each key
	Timeout timeout.Config   // for a handler; the zero value is 30 seconds
	// Key is the key whose permits a request takes. If nil, it is [server.ClientIP]. Behind proxies, use the method ClientIP of a
	// [server.Proxies].
	Key server.Key

	// Plugins are further plugins, at the places of their phases.
	Plugins []server.Plugin
}

// NewServer makes a pipeline. Its error has every field that cannot be used, joined. Each is a [*core.ConfigError].
func NewServer(cfg ServerConfig) (*server.Pipeline, error) {
	cfg.Name = cmp.Or(cfg.Name, "standard")
	named(&cfg.Limit.Name, cfg.Name, &cfg.Limit.Registry, cfg.Registry)
	named(&cfg.Timeout.Name, cfg.Name, &cfg.Timeout.Registry, cfg.Registry)
	var all parts
	var limits *ratelimit.Limiter
	var limit *timeout.Timeout
	_, bad := server.New(cfg.Plugins...)
	err := errors.Join(
		validate.Relabel(part(&all, &limits)(ratelimit.New(cfg.Limit)), "standard.ServerConfig.Limit.", "ratelimit.Config."),
		part(&all, &limit)(timeout.New(cfg.Timeout)),
		validate.Relabel(bad, "standard.ServerConfig.Plugins", "server.New"),
	)
	if err != nil {
		return nil, errors.Join(err, all.Close())
	}
	byKey, err := ratelimit.NewServer(limits, ratelimit.ServerOptions{Key: cfg.Key})
	if err != nil {
		return nil, errors.Join(err, all.Close())
	}
	pipeline, err := server.New(append([]server.Plugin{byKey, timeout.NewServer(limit, timeout.ServerOptions{})}, cfg.Plugins...)...)
	if err != nil {
		return nil, errors.Join(err, all.Close())
	}
	return pipeline, nil
}
