package ratelimit

import (
	"errors"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/instance"
	"github.com/gresil/gresil/internal/registry"
	"github.com/gresil/gresil/internal/validate"
)

// A plugin is the common part of [Server] and [Client]: C is its Config. Methods that mention
// C are written for each of them, so that users see no type parameter.
type plugin[C config] struct {
	life    instance.Instance[C, struct{}]
	limiter *ratelimit.Limiter // nil with a Limiter of x/time
	source  registry.Source    // of the limiter
	typ     string             // of C
}

const defaultName = "default"

type config interface {
	Validate() error
	core() ratelimit.Config
}

// init validates cfg and makes the limiter, unless the plugin has one of x/time.
func (p *plugin[C]) init(cfg C, kind instance.Kind[C, struct{}], xtime bool) (err error) {
	kind.Kind, kind.DefaultName, p.typ = "ratelimit", defaultName, kind.Type
	if err = p.life.Init(&kind, cfg); err != nil || xtime {
		return err
	}
	inner := cfg.core()
	inner.Registry = &core.Registry{}
	if p.limiter, err = ratelimit.New(inner); err == nil {
		p.source = instance.Inner(inner.Registry)
	}
	return p.relabel(err)
}

// setCore passes a Config to the limiter.
func (p *plugin[C]) setCore(cfg C) error {
	if p.limiter == nil {
		return nil
	}
	return p.relabel(p.limiter.SetConfig(cfg.core()))
}

// relabel gives the errors of the limiter the names of the fields of C.
func (p *plugin[C]) relabel(err error) error {
	return validate.Relabel(err, p.typ+".", "ratelimit.Config.", "ratelimit.")
}

// Name returns the name of the plugin and of its limiter.
func (p *plugin[C]) Name() string { return p.life.Name() }

// Limiter returns the limiter that decides: to look at keys, to reset them, and for its
// counters. It is nil if the Config has a Limiter of x/time, which decides instead.
func (p *plugin[C]) Limiter() *ratelimit.Limiter { return p.limiter }

// close removes the plugin from its registry and closes its limiter.
func (p *plugin[C]) close() error {
	if p.limiter == nil {
		return p.life.Close()
	}
	return errors.Join(p.life.Close(), p.limiter.Close())
}
