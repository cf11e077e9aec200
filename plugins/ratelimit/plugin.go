package ratelimit

import (
	"errors"

	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/instance"
	"github.com/gresil/gresil/internal/validate"
)

// A plugin is the common part of [Server] and [Client]: C is its Config. Methods that mention
// C are written for each of them, so that users see no type parameter.
type plugin[C config] struct {
	life    instance.Instance[C, struct{}, Hooks]
	limiter *ratelimit.Limiter // nil with a Limiter of x/time
	typ     string             // of C
}

type config interface {
	Validate() error
	core() ratelimit.Config
}

// init validates cfg and makes the limiter, unless the plugin has one of x/time. The limiter
// has the hooks.
func (p *plugin[C]) init(cfg C, kind instance.Kind[C, struct{}, Hooks], xtime bool) (err error) {
	kind.Kind, kind.DefaultName, p.typ = "ratelimit", ratelimit.DefaultName, kind.Type
	if err = p.life.Init(&kind, cfg); err != nil || xtime {
		return err
	}
	p.limiter, err = ratelimit.New(cfg.core())
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
// counters. It is nil for a [Client] with a Limiter of x/time.
func (p *plugin[C]) Limiter() *ratelimit.Limiter { return p.limiter }

// Observe adds hooks to those of the Config, until cancel is called. Hooks that run at
// that moment are not interrupted. A Limiter of x/time calls no hooks.
func (p *plugin[C]) Observe(h Hooks) (cancel func()) {
	if p.limiter == nil {
		return func() {}
	}
	return p.limiter.Observe(h)
}

// close removes the plugin from its registry and closes its limiter.
func (p *plugin[C]) close() error {
	if p.limiter == nil {
		return p.life.Close()
	}
	return errors.Join(p.life.Close(), p.limiter.Close())
}
