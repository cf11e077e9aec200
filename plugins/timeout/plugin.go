package timeout

import (
	"cmp"
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
	life    instance.Instance[C, settings, Hooks]
	timeout *timeout.Timeout
	of      kind[C]
}

type config interface{ Validate() error }

// A kind is the difference between the plugins.
type kind[C config] struct {
	typ    string // of C
	fields func(*C) fields
	also   func(*validate.Check, *C) // adds to its Validate
	name   string                    // of a Config without a name
	limit  time.Duration             // of a Config without a limit
}

// fields are those that every Config has.
type fields struct {
	name     *string
	registry **core.Registry
	disabled bool
	limit    time.Duration
	hooks    Hooks
}

// settings follow from a Config.
type settings struct {
	cause *Error         // of the limit, which is negative if there is none
	core  timeout.Config // of the timeout, which is not registered itself
}

func (k *kind[C]) settings(cfg *C) settings {
	f := k.fields(cfg)
	cause := &Error{Name: cmp.Or(*f.name, k.name), Limit: cmp.Or(f.limit, k.limit)}
	inner := timeout.Config{Name: cause.Name, Limit: cause.Limit, Hooks: f.hooks}
	if f.disabled {
		inner.Limit = -1
	}
	return settings{cause, inner}
}

func (k *kind[C]) check(cfg *C) error {
	check := validate.Of(k.typ)
	k.also(check, cfg)
	return errors.Join((*cfg).Validate(), check.Err())
}

// init is the constructor of self.
func (p *plugin[C]) init(self any, of kind[C], cfg C) (err error) {
	p.of = of
	if err = of.check(&cfg); err != nil {
		return err
	}
	err = p.life.Init(&instance.Kind[C, settings, Hooks]{
		Kind: "timeout", Type: of.typ, DefaultName: of.name, Settings: p.of.settings,
		Fields: func(c *C) instance.Fields[Hooks] {
			f := of.fields(c)
			return instance.Fields[Hooks]{Name: f.name, Registry: f.registry, Hooks: nil} // the timeout has the hooks
		},
		Fixed: func(check *validate.Check, _, cfg *C) { of.also(check, cfg) },
	}, cfg)
	if err != nil {
		return err
	}
	if p.timeout, err = timeout.New(p.life.Load().Settings.core); err != nil {
		return err
	}
	return p.life.Register(self)
}

// Name returns the name of the plugin.
func (p *plugin[C]) Name() string { return p.life.Name() }

// Observe adds hooks to those of the Config, until cancel is called. Hooks that run at
// that moment are not interrupted.
func (p *plugin[C]) Observe(h Hooks) (cancel func()) { return p.timeout.Observe(h) }

// Mechanisms returns the *timeout.Timeout of core/timeout. It makes a plugin
// [core.Composed].
func (p *plugin[C]) Mechanisms() []any { return []any{p.timeout} }

// Close removes the plugin from its registry. It goes on working. A second Close does
// nothing; the error is always nil.
func (p *plugin[C]) Close() error { return p.life.Close() }

// setConfig replaces the Config.
func (p *plugin[C]) setConfig(cfg C) error {
	return p.life.SetConfig(cfg, func(cfg *C) error { return p.timeout.SetConfig(p.of.settings(cfg).core) })
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
	if err := p.of.check(&cfg); err != nil {
		return nil, nil, err
	}
	return &cfg, &Error{Name: p.Name(), Limit: p.of.settings(&cfg).cause.Limit}, nil
}
