package breaker

import (
	"context"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/internal/instance"
	"github.com/gresil/gresil/internal/override"
)

// A plugin is the common part of [Client] and [Server]: C is its Config, S the settings
// that follow from it, and Call the part that can change for one request. Methods that
// mention them are written for each of the two, so that users see no type parameter.
type plugin[C config, S, Call any] struct {
	life     instance.Instance[C, S]
	one      *Breaker // or
	group    *Group   // if there are keys
	breakers breakers // either of the two
}

type config interface {
	Validate() error
	core() breaker.Config
}

// breakers are a [Breaker] or a [Group].
type breakers interface {
	SetConfig(cfg breaker.Config) error
}

// init is the constructor of self. hosts reports whether the keys are hosts.
func (p *plugin[C, S, Call]) init(self any, kind *instance.Kind[C, S], cfg C, keyed bool, hosts func() bool, maxKeys int) (err error) {
	if err = p.life.Init(kind, cfg); err != nil {
		return err
	}
	inner := cfg.core()
	inner.Registry = &core.Registry{}
	if keyed {
		p.group, err = breaker.NewGroup(inner, maxKeys)
		p.breakers = p.group
	} else {
		p.one, err = breaker.New(inner)
		p.breakers = p.one
	}
	if err != nil {
		return err
	}
	source := instance.Inner(inner.Registry)
	source.Hosts = hosts
	return p.life.Register(self, p.setConfig, source)
}

// Name returns the name of the plugin.
func (p *plugin[C, S, Call]) Name() string { return p.life.Name() }

// setConfig replaces the Config.
func (p *plugin[C, S, Call]) setConfig(cfg C) error {
	return p.life.SetConfig(cfg, func(cfg *C) error { return p.breakers.SetConfig((*cfg).core()) })
}

// overridden returns the Call in force, changed by the overrides.
func (p *plugin[C, S, Call]) overridden(ctx context.Context, call Call) Call {
	if f := override.From[plugin[C, S, Call], Call](ctx, p); f != nil {
		return applied(f, call)
	}
	return call
}

// applied is separate, because the argument of f is on the heap.
func applied[Call any](f func(*Call), call Call) Call {
	f(&call)
	return call
}

// Group returns the breakers of all keys. It is nil if there is one breaker for all
// requests, as in a [Server] without a Key.
func (p *plugin[C, S, Call]) Group() *Group { return p.group }

// Close removes the plugin from its registry. It goes on working. A second Close does
// nothing; the error is always nil.
func (p *plugin[C, S, Call]) Close() error { return p.life.Close() }
