package breaker

import (
	"context"

	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/internal/instance"
	"github.com/gresil/gresil/internal/override"
)

// A plugin is the common part of [Client] and [Server]: C is its Config, S the settings
// that follow from it, and Call the part that can change for one request.
type plugin[C config, S, Call any] struct {
	life     instance.Instance[C, S, Hooks]
	breakers breakers
}

type config interface {
	Validate() error
	core() breaker.Config
}

// breakers are a [Breaker] or a [Group]. They have the hooks.
type breakers interface {
	SetConfig(cfg breaker.Config) error
	Observe(h Hooks) (cancel func())
}

// Name returns the name of the plugin.
func (p *plugin[C, S, Call]) Name() string { return p.life.Name() }

// Config returns the Config of the constructor or of the last SetConfig, as it was given
// except for a Name and Registry that stayed. The type C is [ClientConfig] for a [Client]
// and [ServerConfig] for a [Server].
func (p *plugin[C, S, Call]) Config() C { return p.life.Load().Config }

// SetConfig replaces the Config while the plugin is in use: see
// [breaker.Breaker.SetConfig]. States, counts and observers stay. An empty Name and a nil
// Registry stay as they are; MaxKeys must stay the same, and the Key of a [Server] must
// not be added or removed. With an error nothing changes.
func (p *plugin[C, S, Call]) SetConfig(cfg C) error {
	return p.life.SetConfig(cfg, func(cfg *C) error { return p.breakers.SetConfig((*cfg).core()) })
}

// Override returns a context under which f changes how this plugin, and no other, treats
// a request; for a [Server] it is for an outer middleware. Overrides nest: the innermost
// is applied last. A nil f changes nothing. The type Call is [ClientCall] for a [Client]
// and [ServerCall] for a [Server].
func (p *plugin[C, S, Call]) Override(ctx context.Context, f func(*Call)) context.Context {
	return override.Context(ctx, p, f)
}

// overridden returns a zero Call changed by the overrides.
func (p *plugin[C, S, Call]) overridden(ctx context.Context) (call Call) {
	if f := override.From[plugin[C, S, Call], Call](ctx, p); f != nil {
		return applied(f)
	}
	return call
}

// applied is separate, because the argument of f is on the heap.
func applied[Call any](f func(*Call)) Call {
	var call Call
	f(&call)
	return call
}

// Observe adds hooks to those of the Config, until cancel is called.
func (p *plugin[C, S, Call]) Observe(h Hooks) (cancel func()) { return p.breakers.Observe(h) }

// Mechanisms returns the Group, or the Breaker of a [Server] without a Key. With it the
// plugin is a [core.Composed].
func (p *plugin[C, S, Call]) Mechanisms() []any { return []any{p.breakers} }

// Close removes the plugin from its registry. It goes on working. A second Close does
// nothing; the error is always nil.
func (p *plugin[C, S, Call]) Close() error { return p.life.Close() }
