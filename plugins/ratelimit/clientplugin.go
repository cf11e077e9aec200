package ratelimit

import (
	"errors"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/cooldown"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/instance"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/registry"
	"github.com/gresil/gresil/internal/validate"
)

type (
	// Cooldown holds the keys of a [Client].
	Cooldown = cooldown.Cooldown
	// CooldownStore shares the holds of a [Client].
	CooldownStore = cooldown.Store
	// Store holds the state of the keys.
	Store = ratelimit.Store
	// ClientStats are the counters of the limiter of a [Client].
	ClientStats = ratelimit.Stats
)

// Never is the RetryAfter of a request that costs more than the limit ever
// allows.
const Never time.Duration = limits.Never

// plugin is the life cycle of a [Client], and its limiter.
type plugin struct {
	life    instance.Instance[ClientConfig, struct{}]
	limiter *ratelimit.Limiter // nil with a Limiter of x/time
	source  registry.Source    // of the limiter
}

const defaultName = "default"

// init validates cfg and makes the limiter, unless the plugin has one of x/time.
func (p *plugin) init(cfg ClientConfig, kind instance.Kind[ClientConfig, struct{}]) (err error) {
	kind.Kind, kind.Type, kind.DefaultName = "ratelimit", "ratelimit.ClientConfig", defaultName
	if err = p.life.Init(&kind, cfg); err != nil || cfg.Limiter != nil {
		return err
	}
	inner := cfg.core()
	inner.Registry = &core.Registry{}
	if p.limiter, err = ratelimit.New(inner); err == nil {
		p.source = instance.Inner(inner.Registry)
	}
	return relabel(err)
}

// setCore passes a Config to the limiter.
func (p *plugin) setCore(cfg ClientConfig) error {
	if p.limiter == nil {
		return nil
	}
	return relabel(p.limiter.SetConfig(cfg.core()))
}

// relabel gives the errors of the limiter the names of the fields of ClientConfig.
func relabel(err error) error {
	return validate.Relabel(err, "ratelimit.ClientConfig.", "ratelimit.Config.", "ratelimit.")
}

// Name returns the name of the plugin and of its limiter.
func (p *plugin) Name() string { return p.life.Name() }

// Limiter returns the limiter that decides: to look at keys, to reset them, and for its
// counters. It is nil if the Config has a Limiter of x/time, which decides instead.
func (p *plugin) Limiter() *ratelimit.Limiter { return p.limiter }

// close removes the plugin from its registry and closes its limiter.
func (p *plugin) close() error {
	if p.limiter == nil {
		return p.life.Close()
	}
	return errors.Join(p.life.Close(), p.limiter.Close())
}
