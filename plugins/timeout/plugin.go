package timeout

import (
	"context"
	"errors"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/timeout"
	"github.com/gresil/gresil/internal/instance"
	"github.com/gresil/gresil/internal/override"
	"github.com/gresil/gresil/internal/validate"
)

// A plugin is the common part of [Client] and [Server]: C is its Config. Methods that
// mention C are written for each of them, so that users see no type parameter.
type plugin[C config] struct {
	life    instance.Instance[C, settings]
	timeout *timeout.Timeout
	kind    *instance.Kind[C, settings]
}

type config interface{ Validate() error }

// settings follow from a Config.
type settings struct {
	cause *Error         // of the limit, which is negative if there is none
	core  timeout.Config // of the timeout
}

func settle(name string, disabled bool, limit time.Duration) settings {
	inner := timeout.Config{Name: name, Limit: limit}
	if disabled {
		inner.Limit = -1
	}
	return settings{&Error{Name: name, Limit: limit}, inner}
}

// check is Validate, together with the fields that this kind of plugin does not use.
func (p *plugin[C]) check(cfg *C) error {
	check := validate.Of(p.kind.Type)
	if p.kind.Fixed != nil {
		p.kind.Fixed(check, cfg, cfg)
	}
	return errors.Join((*cfg).Validate(), check.Err())
}

// init is the constructor of self.
func (p *plugin[C]) init(self any, kind *instance.Kind[C, settings], cfg C) (err error) {
	kind.Kind, p.kind = "timeout", kind
	if err = p.check(&cfg); err != nil {
		return err
	}
	if err = p.life.Init(kind, cfg); err != nil {
		return err
	}
	inner := p.life.Load().Settings.core
	inner.Registry = &core.Registry{}
	if p.timeout, err = timeout.New(inner); err != nil {
		return err
	}
	return p.life.Register(self, p.setConfig, instance.Inner(inner.Registry))
}

// Name returns the name of the plugin.
func (p *plugin[C]) Name() string { return p.life.Name() }

// Close removes the plugin from its registry. It goes on working. A second Close does
// nothing; the error is always nil.
func (p *plugin[C]) Close() error { return p.life.Close() }

// setConfig replaces the Config.
func (p *plugin[C]) setConfig(cfg C) error {
	return p.life.SetConfig(cfg, func(cfg *C) error { return p.timeout.SetConfig(p.kind.Settings(cfg).core) })
}

// settings returns the Config for a request, and the error for its limit.
func (p *plugin[C]) settings(ctx context.Context) (*C, *Error, error) {
	now := p.life.Load()
	f := override.From[plugin[C], C](ctx, p)
	if f == nil {
		return &now.Config, now.Settings.cause, nil
	}
	cfg := now.Config
	f(&cfg)
	if err := p.check(&cfg); err != nil {
		return nil, nil, err
	}
	return &cfg, &Error{Name: p.Name(), Limit: p.kind.Settings(&cfg).cause.Limit}, nil
}
